// The whole userland of glowplug's image: a POSIX shell and `cp`, in one static program for the one container that needs them.
//
// An init container runs `sh -c "cp -R … || echo …"` once and ends, so nothing else is in the image: no package manager, no
// libc, nothing that a scanner would have to follow. It is Go because Go builds it for either kind of machine, from pinned
// sources and without a registry, and gives the same bytes each time. The name it is called by decides what it is.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"
)

func main() {
	name, arguments := filepath.Base(os.Args[0]), os.Args[1:]
	switch name {
	case "sh":
		os.Exit(shell(arguments))
	case "cp":
		os.Exit(run("cp", copyAll(arguments)))
	}
	fmt.Fprintf(os.Stderr, "%s: this program is sh or cp\n", name)
	os.Exit(127)
}

// shell runs `sh [-eux…] -c COMMAND [NAME [ARGUMENT…]]`, `sh [-eux…] FILE [ARGUMENT…]`, or standard input.
func shell(arguments []string) int {
	asCommand := false
	var options []string
	for len(arguments) > 0 && len(arguments[0]) > 1 && arguments[0][0] == '-' {
		option := arguments[0]
		arguments = arguments[1:]
		if option == "--" {
			break
		}
		letters := strings.ReplaceAll(option[1:], "c", "")
		asCommand = asCommand || letters != option[1:]
		if letters != "" {
			options = append(options, "-"+letters)
		}
	}
	name, rest := "sh", arguments
	var source io.Reader = os.Stdin
	switch {
	case asCommand && len(arguments) == 0:
		return misused(errors.New("-c needs a command"))
	case asCommand:
		source, rest = strings.NewReader(arguments[0]), arguments[1:]
		if len(rest) > 0 {
			name, rest = rest[0], rest[1:]
		}
	case len(arguments) > 0:
		file, err := os.Open(arguments[0])
		if err != nil {
			return misused(err)
		}
		defer file.Close()
		source, name, rest = file, arguments[0], arguments[1:]
	}
	program, err := syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).Parse(source, name)
	if err != nil {
		return misused(err)
	}
	parameters := append(append(options, "--"), rest...)
	runner, err := interp.New(interp.StdIO(os.Stdin, os.Stdout, os.Stderr), interp.Params(parameters...))
	if err != nil {
		return misused(err)
	}
	err = runner.Run(context.Background(), program)
	var status interp.ExitStatus
	if errors.As(err, &status) {
		return int(status)
	}
	return run("sh", err)
}

// misused is a shell's own fault, which has the status 2 everywhere.
func misused(err error) int {
	fmt.Fprintln(os.Stderr, "sh:", err)
	return 2
}

func run(name string, err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	return 1
}
