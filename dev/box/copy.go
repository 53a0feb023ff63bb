package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const usage = "usage: cp [-R] SOURCE… TARGET"

// copyAll is `cp [-R] SOURCE… TARGET`: into TARGET where it is a directory, else as TARGET. Modes are kept, owners are the
// caller's, symbolic links below SOURCE stay links. It goes on after a failure and returns all of them.
func copyAll(arguments []string) error {
	recursive := false
	for len(arguments) > 0 && len(arguments[0]) > 1 && arguments[0][0] == '-' {
		option := arguments[0]
		arguments = arguments[1:]
		if option == "--" {
			break
		}
		if strings.Trim(option[1:], "Rr") != "" {
			return fmt.Errorf("option %s is not known; %s", option, usage)
		}
		recursive = true
	}
	if len(arguments) < 2 {
		return errors.New(usage)
	}
	sources, target := arguments[:len(arguments)-1], arguments[len(arguments)-1]
	held, err := os.Stat(target)
	into := err == nil && held.IsDir()
	if !into && (len(sources) > 1 || strings.HasSuffix(target, "/")) {
		return fmt.Errorf("%s is not a directory", target)
	}
	var failures []error
	for _, source := range sources {
		place := target
		if into {
			place = filepath.Join(target, filepath.Base(source))
		}
		information, err := os.Stat(source)
		switch {
		case err != nil:
			failures = append(failures, err)
		case information.IsDir() && !recursive:
			failures = append(failures, fmt.Errorf("%s is a directory; -R copies it", source))
		case information.IsDir():
			failures = append(failures, copyTree(source, place))
		default:
			failures = append(failures, copyFile(source, place, information.Mode()))
		}
	}
	return errors.Join(failures...)
}

func copyTree(source, target string) error {
	if inside(source, target) {
		return fmt.Errorf("%s lies in %s", target, source)
	}
	var failures []error
	err := filepath.WalkDir(source, func(path string, entry fs.DirEntry, err error) error {
		if err == nil {
			var below string
			if below, err = filepath.Rel(source, path); err == nil {
				err = copyEntry(path, filepath.Join(target, below), entry)
			}
		}
		if err == nil {
			return nil
		}
		failures = append(failures, err)
		if entry != nil && entry.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
	return errors.Join(append(failures, err)...)
}

func copyEntry(path, target string, entry fs.DirEntry) error {
	information, err := entry.Info()
	switch {
	case err != nil:
		return err
	case information.IsDir():
		err = os.Mkdir(target, information.Mode().Perm()|0o700)
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	case information.Mode()&fs.ModeSymlink != 0:
		to, err := os.Readlink(path)
		if err != nil {
			return err
		}
		if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return os.Symlink(to, target)
	case information.Mode().IsRegular():
		return copyFile(path, target, information.Mode())
	}
	return fmt.Errorf("%s is neither file, directory nor link", path)
}

// copyFile replaces the target instead of writing into it: what runs from an earlier copy keeps its file.
func copyFile(source, target string, mode fs.FileMode) error {
	from, err := os.Open(source)
	if err != nil {
		return err
	}
	defer from.Close()
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	to, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode.Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}

func inside(source, target string) bool {
	from, err := filepath.Abs(source)
	if err != nil {
		return false
	}
	to, err := filepath.Abs(target)
	if err != nil {
		return false
	}
	return to == from || strings.HasPrefix(to, from+string(filepath.Separator))
}
