"""What how-tos have people paste ends: also where what is waited for is not there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.repo.tree import ROOT

_KUBECTL = """#!/bin/sh
count=$(cat "$0.asked" 2>/dev/null || echo 0); echo $((count + 1)) > "$0.asked"
case "$STORY" in
none) echo 'Error from server (NotFound): jobs.batch "llama-bake" not found' >&2; exit 1 ;;
failed) [ $count -lt 2 ] || echo FailureTarget Failed ;;
complete) [ $count -lt 2 ] || echo SuccessCriteriaMet Complete ;;
esac
"""
_LOOP = re.compile(r"^(?:while|until) .*?done$", re.MULTILINE | re.DOTALL)


def loops() -> list[str]:
    return [loop for path in sorted((ROOT / "docs" / "howto").glob("*.md")) for loop in _LOOP.findall(path.read_text())]


def test_there_is_one() -> None:
    assert len(loops()) == 1


@pytest.mark.parametrize(
    ("story", "asked", "said"), [("none", 1, ""), ("failed", 3, "Failed"), ("complete", 3, "Complete")]
)
@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_loop_ends_with_the_job_and_without_one(
    tmp_path: Path, story: str, asked: int, said: str, shell: str
) -> None:
    for name, text in (("kubectl", _KUBECTL), ("sleep", "#!/bin/sh\n")):
        program = tmp_path / name
        program.write_text(text)
        program.chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "STORY": story}
    for loop in loops():
        done = subprocess.run([shell, "-c", loop], env=env, capture_output=True, text=True, timeout=60, check=False)
        assert said in done.stdout
        assert (tmp_path / "kubectl.asked").read_text().strip() == str(asked)
