"""What must not leave the machine: names that look like credentials, and values that are.

Two tools, used in different places. *By structure*: a variable or argument whose name looks like a credential is shown as
`sha256:<12 digits>`, so that two documents can still be compared; so are credentials inside a text: in a URL, in JSON, in a header,
in a shell's command. *By value*: the values of this process's own credential-like variables and arguments are searched for in
bytes that are about to be published; only the process that has them can do that.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_NAME: Final = re.compile(
    r"(?:^|[_\-.])(?:(?:api|access|private|session|ssh|account|storage|encryption|signing|master|license|shared)[_\-]?key"
    r"|secret|token|passw(?:or)?d|passwd|passphrase|pwd|credentials?|auth|authorization|bearer|cookie|signature)"
    r"(?:$|[_\-.]|s$|id$)",
    re.IGNORECASE,
)
# Names that match the pattern above and hold no secret.
_HARMLESS: Final = re.compile(
    r"(?:.*\.)?(?:max[_\-].*tokens?|num[_\-].*tokens?|tokenizer.*|.*token[_\-]?file|.*credentials?[_\-]?file"
    r"|.*tokens?[_\-](?:limit|count|budget|threshold|tree|type|size|len|length|ratio)s?|.*token[_\-]?ids?"
    r"|.*batched[_\-]tokens|(?:no[_\-])?allow[_\-]credentials|(?:old)?pwd|.*auth_sock"
    r"|(?:.*[_\-])?(?:bos|eos|pad|unk|sep|cls|mask|stop|special|image|video|audio|placeholder)[_\-]tokens?)",
    re.IGNORECASE,
)
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_STAND_IN: Final = re.compile(r"sha256:[0-9a-f]{12}")
_PLAIN_NAME: Final = re.compile(r"""["']?-{0,2}[A-Za-z_][\w.\-]*""")
# An option that is a switch: a word with a dash behind it is the next option.
_SWITCH: Final = re.compile(r"-+(?:no|enable|disable|use|require|skip)[_\-]")
_SHORT_OPTION: Final = re.compile(r"-[A-Za-z]{1,3}\d?(?:[.={].*)?", re.DOTALL)
# Options of curl, podman and skopeo whose value is `user:password`; two numbers are a user and a group.
_USER: Final = re.compile(r"-u|-U|--user|--proxy-user|--creds")
_USER_PASSWORD: Final = re.compile(r"""(?!\d+:\d+$)(["']?[^\s:/"']+:)([^\s"']+)(["']?)""")
# Options of which a second word is a second value (vLLM's `--api-key`); behind others it may be the model.
_SEVERAL: Final = re.compile(r"api[_\-]?keys?$|(?:key|token|secret|password)s$", re.IGNORECASE)

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://")
_WORD_END: Final = re.compile(r'[\s"]|\Z')
_AUTHORITY_END: Final = re.compile(r"[/?#]|\Z")
# Host and port, not user and password. A bare word with digits may be either.
_HOST_PORT: Final = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|localhost|[\w\-]+(?:\.[\w\-]+)+)(?::\d{0,5})?|[^:]*")

_PARAMETER: Final = re.compile(r"(?<=[?&;#])([\w.%\-]+)=")
_PARAMETER_VALUE: Final = re.compile(r"""[^&#\s"'<>]*""")
_PARAMETER_NAMES: Final = frozenset(("sig", "key", "pass", "pw"))
_LONG_KEY: Final = re.compile(r"[\w\-]{16,}")

_HEADER: Final = re.compile(
    r"""(?:(?<![A-Za-z])(?P<header>(?:proxy-)?authorization)["']?\s*[:=]\s*["']?(?:[A-Za-z][\w\-]*\s+)?"""
    r"|(?<![A-Za-z])bearer\s+|(?<![A-Za-z])basic\s+(?=[A-Za-z0-9+/]{8,}={0,2}(?![\w\-]))"
    r"|^(?P<name>[A-Za-z][\w\-]*):\s+)",
    re.IGNORECASE,
)
_HEADER_VALUE: Final = re.compile(r"""[^\s"'][^"'\r\n]*""")
_ONE_WORD: Final = re.compile(r"""[^\s"']+""")
_SCHEME_AND_VALUE: Final = re.compile(r"(?:bearer|basic|token)\s+(\S+)", re.IGNORECASE)
_SPLIT_HEADER: Final = re.compile(r"(?:\S*authorization[:=])?(?:bearer|basic)|\S*authorization[:=]", re.IGNORECASE)

_PAIR: Final = re.compile(r"""(?<![\w.\-])(["']?)([A-Za-z_][\w.\-]*)\1\s*[:=]\s*(?=\S)""")
_PAIR_VALUE: Final = re.compile(r""""(?:[^"\\]|\\.)*"?|'[^']*'?|\[[^\]]*\]?|[^\s,}\]]+""", re.DOTALL)

# What its beginning tells whose key it is, wherever it stands.
_TOKEN: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:(?P<begin>hf_|api_org_|gh[pousr]_|npm_|[sr]k_live_)[A-Za-z0-9_]{16,}"
    r"|(?P<id>AKIA|ASIA|AROA|AIDA)[A-Z0-9]{16}(?![A-Za-z0-9])"
    r"|(?P<long>github_pat_|glpat-|nvapi-|xox[abeprs]-|AIza)[\w\-]{16,}"
    # Names begin so, too, but have neither digits nor capitals when they are long.
    r"|(?<!-)(?P<sk>sk-)(?=[\w\-]*[0-9A-Z])[\w\-]{16,}"
    r"|(?P<jwt>eyJ)[\w\-]{10,}\.[\w\-]{8,}(?:\.[\w\-]*)*)"
)

_PIECE: Final = re.compile(r"""\s+|(?:[^\s"']|"(?:[^"\\]|\\.)*"|'[^']*')+|.""", re.DOTALL)
_SHELL_END: Final = frozenset(("&&", "||", ";", "|", "&"))
_SHORTEST_SECRET: Final = 8
_DEEPEST: Final = 4


def looks_secret(name: str) -> bool:
    """Whether a variable or argument of this name usually holds a credential."""
    bare = _HUMP.sub("_", name.lstrip("-\"'"))
    return bool(_NAME.search(bare)) and not _HARMLESS.fullmatch(bare)


def hashed(value: str) -> str:
    """A stand-in for a secret that can be compared but not read."""
    return f"sha256:{hashlib.sha256(_bytes(value)).hexdigest()[:12]}"


def value(name: str, text: str) -> str:
    """`text`, or its stand-in where `name` looks like a credential; credentials inside the text are always hidden.

    The same text has always the same stand-in: what is shown may be part of a key.
    """
    if looks_secret(name):
        return hashed(text)
    return _Cleaner().text(text)


def arguments(argv: Iterable[str]) -> list[str]:
    """A command line for a document: values of credential-like options, and credentials inside other words, replaced."""
    return _Cleaner().words(argv)


def tokens(text: str) -> list[tuple[int, int]]:
    """From where to where credentials go that their own form gives away: a token of Hugging Face, OpenAI, AWS, GitHub, a JWT."""
    return [found.span() for found in _TOKEN.finditer(text)]


def known_forms(text: str) -> str:
    """`text` without credentials that can be told wherever they stand: tokens by their form, passwords in URLs.

    For sentences: their words are no command line, and what is named in them is meant to be read.
    """
    if "://" in text:
        text = _Cleaner().urls(text)
    return _TOKEN.sub(lambda found: f"{found.group(found.lastgroup or 0)}***", text)


def secret_values(environ: Mapping[str, str], argv: Iterable[str] = ()) -> dict[str, bytes]:
    """Name → bytes of each credential-like value known here that is long enough to be searched for without false alarms."""
    cleaner = _Cleaner()
    for name, text in environ.items():
        if looks_secret(name):
            cleaner.hide(name, text)
        else:
            cleaner.text(text)
    cleaner.words(argv)
    found: dict[str, bytes] = {}
    known: set[bytes] = set()
    for name, text in cleaner.found:
        data = _bytes(text)
        # The id of an access key is hidden where it is shown, but it names a key and is none.
        if len(text) < _SHORTEST_SECRET or _HUMP.sub("_", name).lower().endswith("_id") or data in known:
            continue
        known.add(data)
        unique, number = name, 1
        while unique in found:
            number += 1
            unique = f"{name} ({number})"
        found[unique] = data
    return found


def _bytes(text: str) -> bytes:
    """The bytes of an argument, which need not be Unicode."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


class _Cleaner:
    """Replaces credentials in texts; `found` are those of which it is sure, as (name, value)."""

    def __init__(self, depth: int = 0, found: list[tuple[str, str]] | None = None) -> None:
        self.found: list[tuple[str, str]] = [] if found is None else found
        self._depth = depth

    def hide(self, name: str, text: str, *, sure: bool = True) -> str:
        """The stand-in of a credential."""
        if _STAND_IN.fullmatch(text):
            return text
        if sure and text:
            quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
            self.found.append((name.strip("\"'"), text[1:-1] if quoted else text))
            scheme = _SCHEME_AND_VALUE.fullmatch(text)
            if scheme:
                self.found.append((name, scheme.group(1)))
        return hashed(text)

    def words(self, argv: Iterable[str]) -> list[str]:
        """Words of a command line. What follows a credential-like option is its value, up to the next option."""
        shown: list[str] = []
        option, values, header, before = "", 0, False, ""
        for item in argv:
            if header and not _SPLIT_HEADER.fullmatch(item):
                shown.append(self.hide("Authorization", item))
                header = False
                continue
            if option and self._is_value(option, values, item):
                sure = not item.startswith("--") if values == 0 else bool(_SEVERAL.search(option))
                shown.append(self.hide(option, item, sure=sure))
                if not sure:
                    self.text(item)  # if it is no value itself, it may hold one
                values += 1
                continue
            both = _USER_PASSWORD.fullmatch(item) if _USER.fullmatch(before) else None
            before = item
            if both:
                shown.append(f"{both.group(1)}{self.hide('password', both.group(2))}{both.group(3)}")
                continue
            option, values = "", 0
            header = bool(_SPLIT_HEADER.fullmatch(item))
            name, equals, rest = item.partition("=")
            plain = _PLAIN_NAME.fullmatch(name) is not None
            if plain and equals:
                if looks_secret(name) and not name.startswith("-"):
                    self._command(item)  # a shell's command perhaps: the value ends earlier then
                shown.append(f"{name}={self.hide(name, rest) if looks_secret(name) else self.text(rest)}")
            elif plain and name.startswith("-") and looks_secret(name):
                shown.append(item)
                option = item
            else:
                shown.append(self.text(item))
        return shown

    @staticmethod
    def _is_value(option: str, values: int, item: str) -> bool:
        if item in _SHELL_END:
            return False
        if values == 0:
            return not (_SWITCH.match(option) and item.startswith("-"))
        return not item.startswith("--") and not _SHORT_OPTION.fullmatch(item)

    def text(self, text: str) -> str:
        """A text with the credentials inside of it replaced."""
        if self._depth > _DEEPEST:
            return self._flat(text)
        brace = min((place for place in (text.find("{"), text.find("[")) if place >= 0), default=-1)
        if brace >= 0:
            parsed = self._json(text[brace:])
            if parsed is not None:
                return self._flat(text[:brace]) + parsed
        return self._flat(text, pairs=brace >= 0)

    def _flat(self, text: str, *, pairs: bool = False) -> str:
        if "://" in text:
            text = self.urls(text)
        if "=" in text:
            text = self._replaced(text, _PARAMETER, self._parameter)
        if pairs:
            text = self._replaced(text, _PAIR, self._pair)
        text = self._replaced(text, _HEADER, self._header)
        if self._depth <= _DEEPEST and ("=" in text or "-" in text) and len(text.split(None, 1)) > 1:
            text = self._command(text)
        return text

    def _command(self, text: str) -> str:
        """A shell's command, say: as `words`, with the spaces as they are."""
        pieces = _PIECE.findall(text)
        inner = _Cleaner(self._depth + 2, self.found)
        places = [place for place, piece in enumerate(pieces) if not piece.isspace()]
        if len(places) < 2:
            return text
        for place, word in zip(places, inner.words(pieces[place].strip() for place in places)):
            pieces[place] = word
        return "".join(pieces)

    def _replaced(self, text: str, names: re.Pattern[str], decide: Any) -> str:
        """`text` with what follows each match of `names` replaced, where `decide(match)` says (end, replacement)."""
        done, pieces, start = 0, [], 0
        while True:
            match = names.search(text, start)
            if match is None:
                break
            start = max(match.end(), start + 1)
            answer = decide(match)
            if answer is None:
                continue
            end, stand_in = answer
            pieces += [text[done : match.end()], stand_in]
            done, start = end, max(end, start)
        return "".join((*pieces, text[done:]))

    def _parameter(self, match: re.Match[str]) -> tuple[int, str] | None:
        name = match.group(1)
        if "%" in name:
            from urllib.parse import unquote

            name = unquote(name)
        listed = name.lower() in _PARAMETER_NAMES
        if not listed and not looks_secret(name):
            return None
        value = _PARAMETER_VALUE.match(match.string, match.end())
        if value is None:
            return None
        sure = not listed or name.lower() != "key" or _LONG_KEY.fullmatch(value.group()) is not None
        if ";" in value.group():  # of a connection string: the value ends here, or holds it
            self.hide(name, value.group().partition(";")[0], sure=sure)
        return value.end(), self.hide(name, value.group(), sure=sure)

    def _pair(self, match: re.Match[str]) -> tuple[int, str] | None:
        name = match.group(2)
        value = _PAIR_VALUE.match(match.string, match.end()) if looks_secret(name) else None
        text = value.group() if value else ""
        if value is None or text.lower() in ("true", "false", "null", "none"):
            return None
        if text.isdigit() and "token" in name.lower():
            return None
        quote = text[0] if text[0] in "\"'" else ""
        bare = text.strip(quote) if quote else text
        return value.end(), f"{quote}{self.hide(name, bare)}{quote}"

    def _header(self, match: re.Match[str]) -> tuple[int, str] | None:
        name = match.group("name")
        if name is not None and not looks_secret(name):
            return None
        whole = name is not None or match.group("header") is not None
        value = (_HEADER_VALUE if whole else _ONE_WORD).match(match.string, match.end())
        if value is None:
            return None
        return value.end(), self.hide(name or "Authorization", value.group())

    def urls(self, text: str) -> str:
        """`user:password@` of URLs. A password may hold `/`, `?` and `@`, so all up to the word's last `@` is hidden."""
        done, pieces, start = 0, [], 0
        while True:
            match = _SCHEME.search(text, start)
            if match is None:
                break
            start = match.end()
            word = text[start : _WORD_END.search(text, start).start()]  # type: ignore[union-attr]
            authority = word[: _AUTHORITY_END.search(word).start()]  # type: ignore[union-attr]
            last = word.rfind("@")
            if last < 0 or ("@" not in authority and _HOST_PORT.fullmatch(authority)):
                continue
            userinfo = word[:last]
            password = userinfo.partition(":")[2]
            sure = "@" in authority or not authority.partition(":")[2].isdigit()
            if password and sure and not _STAND_IN.fullmatch(userinfo):
                self.found.append(("a URL's password", password))
            # What holds a slash may be part of the path after all: then two paths must not become one.
            stand_in = self.hide("", userinfo, sure=False) if "/" in userinfo or _STAND_IN.fullmatch(userinfo) else "…"
            pieces += [text[done:start], stand_in]
            start += last
            done = start
        return "".join((*pieces, text[done:]))

    def _json(self, text: str) -> str | None:
        """JSON with the values of credential-like names replaced, its form kept where there is none; None if it is no JSON."""
        inner = _Cleaner(self._depth + 1, self.found)
        changed = False

        def cleaned(item: Any) -> Any:
            nonlocal changed
            if isinstance(item, str):
                new = inner.text(item)
                changed = changed or new != item
                return new
            # Objects were cleaned when they ended.
            return [cleaned(each) for each in item] if isinstance(item, list) else item

        def hidden(name: str, item: Any) -> Any:
            nonlocal changed
            if isinstance(item, list):
                return [hidden(name, each) for each in item]
            if isinstance(item, dict):
                return {key: hidden(name, each) for key, each in item.items()}
            if item is None or isinstance(item, bool) or (not isinstance(item, str) and "token" in name.lower()):
                return item
            changed = True
            return inner.hide(name, item if isinstance(item, str) else json.dumps(item), sure=isinstance(item, str))

        def ended(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            # Called for every object, also for one that a later one of the same name replaces.
            return {name: hidden(name, item) if looks_secret(name) else cleaned(item) for name, item in pairs}

        count = len(self.found)
        try:
            value = cleaned(json.loads(text, object_pairs_hook=ended))
        except (ValueError, RecursionError):
            del self.found[count:]
            return None
        return json.dumps(value, ensure_ascii=False) if changed else text
