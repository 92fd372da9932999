"""Rules about calls: what they cover, and what they never cover."""

import random
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.tools.policy_kit import make_caller

from toolglot import Agent, Subject, ToolConfig, UsageError
from toolglot.tools.command_words import split_command
from toolglot.tools.policy import ToolPolicy
from toolglot.tools.policy_names import PolicyNames
from toolglot.tools.rules import RuleSet, parse_rule
from toolglot.tools.tool import Tool


def allows(rule: str, *lines: str) -> bool:
    return bool(RuleSet([rule], []).find_approval("shell", [Subject("command", line) for line in lines])[0])


def denies(rule: str, line: str) -> bool | None:
    """True: refused; None: asked about; False: the rule says nothing."""
    denial = RuleSet([], [rule]).find_denial("shell", [Subject("command", line)])
    return False if denial is None else denial[1] or None


# Lines around commands (@), which bash runs in nearly all of them; ↵ begins a new line.
FORMS = """
@; @
@ && @
@ || @
@ | @
@ & @
@↵@
(@)
{ @; }
! @
@ # x
> x @
2>&1 @
if @; then @; fi
for x in a; do @; done
case a in a) @;; esac
while @; do @; break; done
until ! @; do @; break; done
[[ a ]] && @
(( 1 )) && @
f() { @; }; f
f() (@); f
function f { @; }; f
function f() { @; }; f
function f↵{ @↵}↵f
function f (@); f
function f if @; then @; fi; f
function f for x in a; do @; done; f
time @
time -p @
time -- @
coproc @
coproc c { @; }
coproc c (@)
coproc c if @; then @; fi
eval @
eval '@'
builtin eval '@'
command @
X=1 @
X=$(@)
X='@'; $X
X='@'; eval $X
X='@' eval '$X'
echo $(@)
echo `@`
echo "$(@)"
true ${X:-$(@)}
cat <(@)
cat <<E↵$(@)↵E
trap '@' EXIT
shopt -s expand_aliases↵alias g='@'↵g
hash -p /bin/p g; @
"""
_FORMS = [form.replace("↵", "\n") for form in FORMS.strip().splitlines()]


def random_line(generator: random.Random, number: int, depth: int = 3) -> str:
    """A line for bash with the command `p q NUMBER` in it, in one form within another; one in six has a
    random change.
    """
    if depth == 0:
        return generator.choice(["p q", "p q", "p  'q'", "\\p q", "q p", "p", '"p" "q"']) + f" {number}"
    form = generator.choice(_FORMS) if generator.random() < 0.8 else "@"
    first, *others = form.split("@")
    line = first + "".join(random_line(generator, number, depth - 1) + other for other in others)
    if depth < 3 or generator.random() > 0.15 or "break" in line:  # a changed loop might not end
        return line
    index, change = generator.randrange(len(line)), generator.choice(["", *" '\"\\;\n$(}", "X=", "-x "])
    return line[:index] + change + line[index + 1 :]


LONG_LINES = [
    *(
        "env " + "a " * 4990,
        "git " + "-a " * 3300,
        "a;" * 4990,
        "> " * 4990,
        "'" * 9999,
        '"$' * 4999,
        "eval " * 1990,
    ),
    *("env " + "-Sx " * 2490, "env " + "-Sssssssh " * 990, "env " + "'-Sssssh env -S' " * 620, "X=x " * 2490),
    *("hash x=" * 1400, "npx " * 2490, "make " + "X=a\\ b " * 1240, "function " * 1100, "time " * 1990),
]


class TestCommands:
    @pytest.mark.parametrize(("rule", "line"), [
        ("git status", "git status"),
        ("git status", "git  'status'"),
        ("git status *", "git status"),
        ("git status *", "git status --short src"),
        ("git * --short", "git status --short"),
        ("npm run test:*", "npm run test:unit"),
        ("*", "ls -l"),
        ("git log *", 'git log --format="%h %s" -5 HEAD~1'),
        ("pytest *", "pytest -x 2>&1"),
        ("pytest *", "pytest -x 2>/dev/null >/dev/null"),
        ("git *", "git status && git diff; git log | git apply"),
        ("echo *", "echo 'a;b' \"c|d\" e\\;f"),
        ("find *", "find . -name x.py"),
        ("find . -exec ls", "find . -exec ls"),
        ("git switch *", "git switch -c new"),
        ("env", "env"),
        ("sort *", "sort -n -k2 a.txt"),
        ("tar *", "tar tf a.tgz"),
        ("curl *", "curl -fsSL -H 'Accept: x' https://a.org/x"),
        # build tools, as they are usually called
        ("make *", "make -j4 test"), ("make *", "make -k"), ("cargo *", "cargo test --release -- "
                                                                        "--nocapture"),
        ("cargo test *", "cargo test name"), ("pytest *", "pytest -xvs -k 'a and b' --maxfail=1 "
                                                          "'tests/a.py::t[x=1]'"),
        ("npm *", "npm test"), ("npm *", "npm run build --if-present"), ("mvn *", "mvn -q -B -ntp clean verify"),
        ("gradle *", "gradle test --tests a.B --parallel"), ("docker *", "docker ps -a"),
        ("docker build *", "docker build -t x ."), ("docker compose *", "docker compose up -d"),
        ("git config --get x", "git config --get x"),
        # programs that are started by others, if the rule names them
        ("uv run pytest *", "uv run pytest -q tests"), ("npx prettier *", "npx prettier --check src"),
        ("npx -y prettier *", "npx -y prettier --check src"), ("python -m pytest *", "python -m pytest -q"),
        ("npm exec -- prettier *", "npm exec -- prettier --check"), ("uv tool run ruff *", "uv tool run ruff check"),
        ("timeout 5 pytest -q", "timeout 5 pytest -q"),
        # options of programs that nobody knows, and texts that look like an assignment
        ("unknown *", "unknown --x=y -z a"), ("git *", "git commit -m a=b"), ("echo *", "echo a=b"), ("grep *", "grep x=1 a"),
        ("curl *", "curl -d a=b https://a.org/x"), ("make CC=gcc *", "make CC=gcc test"),
    ])  # fmt: skip
    def test_plain_words_are_allowed(self, rule: str, line: str) -> None:
        assert allows(f"shell({rule})", line)

    @pytest.mark.parametrize(("rule", "line"), [
        # other words
        ("git log", "git logout"), ("git log", "git log -5"), ("git log *", "git logs"), ("git log *", "gitlog"),
        ("git log *", "git"),
        ("git log *", "/tmp/git log"), ("git log *", "./git log"), ("npm run test:*", "npm run test"), ("ls *", "ls\u00a0-l"),
        # more than one command
        ("git *", "git status; rm x"), ("git *", "git status && rm x"), ("git *", "git status | sh"),
        ("git *", "git log & rm x"),
        ("git *", "git status\nrm x"), ("git *", "git status |& tee x"), ("git *", "rm x || git status"), ("echo *", ""),
        # what bash changes first
        ("echo *", "echo $HOME"), ("echo *", 'echo "$HOME"'), ("echo *", "echo $(rm x)"), ("echo *", "echo `rm x`"),
        ("echo *", 'echo "`rm x`"'), ("echo *", "echo *"), ("ls *", "ls ?.py"), ("ls *", "ls [ab]"), ("ls *", "ls {a,b}"),
        ("ls *", "ls ~"), ("ls *", "ls ~root"), ("git *", "git --x=~/a"), ("echo *", "echo $'a'"), ("echo *", "echo a\\\nb"),
        ("git *", "A=1 git status"), ("git *", "PATH=. git status"), ("git *", "git status # x"),
        ("*", "GIT_PAGER=x git log"),
        ("*", "if true"), ("*", "! ls"), ("*", "{ ls"), ("*", "time ls"), ("*", "(ls)"), ("*", "f() ls"), ("*", "[[ a ]]"),
        ("echo *", "echo 'a"), ("echo *", 'echo "a'), ("echo *", "echo a\\"), ("echo *", "echo \x00"),
        ("echo *", "echo \x1b[2J"),
        # files
        ("echo *", "echo a > b"), ("echo *", "echo a >> b"), ("cat *", "cat < b"), ("cat *", "cat << E"),
        ("echo *", "echo a >| b"),
        ("echo *", "echo a >/dev/nullx"), ("echo *", "echo a > /dev/null/../x"), ("echo *", "echo a &> b"),
        ("diff *", "diff <(a) b"),
        ("echo *", "echo a 2>&1x"), ("echo *", "echo a >& b"), ("echo *", "echo a>b"),
        # programs that run others, or write
        ("find *", "find . -exec rm {} +"), ("find *", "find . -delete"), ("find *", "find . -fprint x"),
        ("find *", "find . -okdir rm ;"),
        ("find . -exec *", "find . -exec rm x"), ("git *", "git -c core.pager=x log"),
        ("git --no-pager *", "git --no-pager -c alias.x=!id x"), ("git -C *", "git -C . -c alias.x=!id x"),
        ("*", "/usr/bin/git -c alias.x=!id x"), ("g?t *", "git --no-pager log"), ("git -C *", "git -C . clone -u id a b"),
        ("git *", "git --exec-path=x log"),
        ("git *", "git --git-dir=x status"), ("git *", "git diff --output=x"), ("git log *", "git log --outp=x"),
        ("git log *", "git log --ext-diff"), ("git grep *", "git grep -Osh x"),
        ("git *", "git grep --open-files-in-pager=x y"),
        ("git rebase *", "git rebase -x sh main"), ("git *", "git bisect run sh"), ("git *", "git clone -u x y"),
        ("git *", "git submodule foreach sh"), ("git fetch *", "git fetch --upload-pack=x"), ("git *", "git difftool -x sh"),
        ("env *", "env rm x"), ("xargs *", "xargs rm"), ("bash *", "bash x.sh"), ("sh *", "sh -c x"), ("*", "sudo ls"),
        ("*", "env"),
        ("nice *", "nice rm x"), ("timeout *", "timeout 5 rm x"), ("sed *", "sed s/a/b/e x"), ("awk *", "awk 1"),
        ("*", "eval ls"),
        ("/usr/bin/env *", "/usr/bin/env rm"), ("sort *", "sort --compress-program=x a"),
        ("sort *", "sort --compress-prog x a"),
        ("sort *", "sort -o x a"), ("sort *", "sort -no x a"), ("sort *", "sort --o=x a"), ("rg *", "rg --pre x y"),
        ("fd *", "fd -x rm"),
        ("rg *", "rg --pre=x y"), ("tar *", "tar xf a --to-command=x"), ("tar *", "tar xIf x a"), ("tar *", "tar -cIx a"),
        ("tar *", "tar xf a --checkpoint-action=exec=x"), ("less *", "less x"), ("vim *", "vim x"), ("ssh *", "ssh h rm"),
        ("*", ". x"),
        ("split *", "split --filter=x a"), ("fdfind *", "fdfind -Hx rm"), ("go vet *", "go vet -vettool=x"),
        ("zip *", "zip -rT x y"), ("git *", "git filter-branch --tree-filter 'rm x'"), ("git *", "git send-email --to-cmd=x"),
        ("git filter-branch *", "git filter-branch --msg-filter x"), ("git *", "git mergetool --tool=x"),
        ("git mergetool *", "git mergetool -tx"), ("curl *", "curl -fsSLo x a.org"), ("curl *", "curl -K x"),
        ("curl *", "curl --outp x a.org"), ("curl *", "curl -O a.org"), ("curl *", "curl -D x a.org"),
        # build tools
        ("make *", "make --eval='$(shell id > e)'"), ("make *", "make --ev=x"), ("make *", "make -E x"),
        ("make *", "make -f x"),
        ("make *", "make SHELL=x"), ("make *", "make CC=x"), ("make *", "make SHELL:=x"), ("make *", "make -j4 'X!=id'"),
        ("make *", "make -kC x"), ("cargo *", "cargo test --config target.x.runner=y"), ("cargo *", "cargo --config x test"),
        ("cargo test *", "cargo test --config=x"), ("cargo *", "cargo +x test"), ("cargo *", "cargo -Zx test"),
        ("pytest *", "pytest -p x"), ("pytest *", "pytest -px"), ("pytest *", "pytest -c x"), ("pytest *", "pytest -o x=y"),
        ("pytest *", "pytest --override-ini=x"), ("pytest *", "pytest --pdbcls=x:y"), ("pytest *", "pytest x=y"),
        ("npm *", "npm exec x"), ("npm *", "npm x y"), ("npm *", "npm --script-shell=x test"), ("npm *", "npm init x"),
        ("npm test *", "npm test --script-shell=x"), ("npm *", "npm --loglevel silent exec x"), ("npm *", "npm config set x y"),
        ("npm exec prettier *", "npm exec prettier --call=x"), ("npm *", "npm explore x -- sh"), ("yarn *", "yarn dlx x"),
        ("mvn *", "mvn exec:exec"), ("mvn *", "mvn -Dexec.executable=x test"), ("mvn *", "mvn -f x test"),
        ("gradle *", "gradle -I x test"), ("gradle *", "gradle --init-script x"), ("./gradlew *", "./gradlew -Dx=y"),
        ("docker *", "docker run x"), ("docker run *", "docker run x sh"), ("docker *", "docker exec x sh"),
        ("docker *", "docker -H x ps"), ("docker compose *", "docker compose exec x sh"), ("podman *", "podman run x"),
        ("git *", "git config core.x y"), ("git config *", "git config alias.x !id"), ("git *", "git clone 'ext::sh -c id'"),
        ("git *", "git remote-ext x"), ("git *", "git shell -c x"), ("git *", "git archive --remote=ext::x"),
        ("git *", "git fetch ext::x"), ("git *", "git remote add x ext::x"), ("git *", "git instaweb --httpd=x"),
        ("go *", "go build -ldflags=-extld=x"), ("cmake *", "cmake -P x"), ("just *", "just --shell x"),
        ("tox *", "tox -x a=b"),
        # programs that start the one they are given
        ("npx *", "npx x"), ("uv run *", "uv run x"), ("uv *", "uv run x"), ("uv run pytest *", "uv run pytest -p x"),
        ("uv run --with x pytest *", "uv run --with x pytest -q"), ("uv run *", "uv run env x"), ("python -m *", "python -m x"),
        ("python -m pytest *", "python -m pytest -p x"), ("poetry run *", "poetry run x"), ("tmux *", "tmux new x"),
        ("bundle exec *", "bundle exec x"), ("runuser *", "runuser x"), ("pkexec *", "pkexec x"), ("xvfb-run *", "xvfb-run x"),
        ("dbus-run-session *", "dbus-run-session x"), ("*", "/lib64/ld-linux-x86-64.so.2 x"),
        ("kubectl *", "kubectl exec x sh"),
        ("conda *", "conda run -n x y"), ("direnv exec . *", "direnv exec . x"), ("rustup *", "rustup run x y"),
        ("env *", "env -S'x y'"), ("env *", "env --split-string=x"),
        ("git *", "git rebase --exec=x"), ("tar *", "tar --to-command=x"),
        # an assignment is never harmless
        ("unknown *", "unknown X=1"), ("dd *", "dd if=a of=b"), ("alias *", "alias x=y"),
    ])  # fmt: skip
    def test_in_doubt_nothing_is_allowed(self, rule: str, line: str) -> None:
        assert not allows(f"shell({rule})", line)

    def test_every_line_of_a_call_must_be_allowed(self) -> None:
        assert allows("shell(ls *)", "ls a", "ls b")
        assert not allows("shell(ls *)", "ls a", "rm b")

    @pytest.mark.parametrize(("rule", "line", "expected"), [
        ("git push *", "git push", True), ("git push", "git push origin", True), ("git push *", "ls; git push", True),
        ("git push *", "ls && (git push)", True), ("rm *", "env A=1 rm -r x", True), ("rm *", "sudo -u me rm x", True),
        ("rm *", "/bin/rm x", True), ("rm *", "r\\m x", True), ("rm *", "'rm' x", True), ("rm *", "A=1 rm x", True),
        ("rm *", "find . -exec rm {} +", True), ("rm *", "bash -c 'ls; rm x'", True), ("rm *", "if rm x; then ls; fi", True),
        ("rm *", "echo $(rm x)", True), ("rm *", "ls | xargs rm", True), ("rm *", "timeout 5 bash -c \"eval "
                                                                                  "'rm x'\"", True),
        ("rm *", "rm x > y", True), ("*", "ls", True), ("rm *", "ls\nrm x", True), ("rm *", "rm", True),
        ("git push *", "git -C x push", None), ("git push *", "git $X", None), ("rm *", "$RM x", None),
        ("rm *", "echo \"$(rm x)\"", None),
        ("git push *", "git commit -m push", None), ("rm *", "echo 'a", False), ("rm *", "ls *.py > out", False),
        ("git push *", "git add *.py", None),
        ("rm *", "> out rm x", True), ("rm *", "2>x </dev/null rm x", True), ("rm *", "ls $X | head -$N", False),
        ("rm *", "$'rm' x", None),
        ("rm *", "r* x", None), ("rm *", "X=rm; $X y", None), ("rm *", "eval $X", None), ("rm *", 'ls "${X:-`rm y`}"', None),
        ("rm *", "f() { rm x; }; f", True), ("rm *", "cat <<E\nrm x\nE", True), ("rm *", "xargs $X", None),
        ("rm *", "r\\\nm x", True),
        ("git push *", "ls $X", False),
        # what a shell reads, and other names
        ("git push *", "bash <<< 'git push'", True), ("rm *", "sh <<<rm", True), ("rm *", "<<< 'ls; rm x' bash -s", True),
        ("rm *", "cat <<< 'rm x'", False), ("git push *", "git <<< x push", True), ("rm *", "bash <<< $X", None),
        ("git push *", "echo 'git push' | sh", None), ("rm *", "echo rm x | sudo /bin/bash -x", None),
        ("rm *", "cat a | sh -", None), ("rm *", ">&- rm x", True), ("rm *", "ls <&-|rm x", True), ("rm *", ">&-x rm x", True),
        ("rm *", "echo rm x | bash -s a", None), ("rm *", "bash <(echo rm x)", None),
        ("rm *", "echo rm x | . /dev/stdin", None), ("rm *", "ls <>x|rm x", True), ("rm *", "ls >x&rm x", True),
        ("git push *", "echo push | xargs git", None), ("rm *", "echo rm x | xargs env", None),
        ("rm *", "ls | xargs wc", False),
        ("git push *", "git -c alias.p=push p", None), ("rm *", "env git -c 'alias.p=!rm x' p", None),
        ("git push *", "git --config-env=alias.p=X p", None), ("git push *", "git switch -c new", False),
        ("rm *", "ls | sed s/a/b/", False), ("rm *", "bash build.sh", False),
        ("rm *", "bash -c ls", False), ("rm *", "echo sh", False),
        ("git push *", "git status", False), ("git push *", "git pull", False), ("rm *", "echo rm", False),
        ("rm *", "rmdir x", False),
        # options and assignments with a value
        ("git push *", "env -S'git push'", True), ("git push *", "env -iS'git push'", True),
        ("git push *", "env -Sgit push", True), ("git push *", "env --split-string='git push'", True),
        ("git push *", "env --split-string=git push", True), ("git push *", "git rebase --exec='git push'", True),
        ("git push *", "git rebase -x'git push'", True), ("git push *", "tar xf a --to-command='git "
                                                                        "push'", True),
        ("git push *", "runuser -c'git push' me", True), ("git push *", "npm exec -c 'git push'", True),
        ("git push *", "make --eval='x:;git push' x", True), ("git push *", "make SHELL='git push'", None),
        ("git push *", "cargo test --config target.x.runner='git push'", True), ("rm *", "unknown --exec=rm", None),
        ("git push *", "unknown --exec='git push'", None), ("git push *", "unknown X='git push'", None),
        ("git push *", "GIT_EDITOR='git push' git commit", None), ("git push *", "X=1 PAGER='sh -c \"git "
                                                                                 "push\"' man x", None),
        ("git push *", "unknown --message='a git push'", False), ("git push *", "echo --exec='git push'", False),
        ("rm *", "eval 'ls;' r\"m\" x", True), ("rm x *", "eval 'rm' 'x'", True), ("rm *", "eval eval 'r' m", False),
        ("rm *", "env --chdir=rm ls", True), ("rm *", "unknown -rm", False),
        # functions, and other compound commands
        ("git push *", "function f { git push; }; f", True), ("git push *", "function f() { git push; }; f", True),
        ("git push *", "function f\n{ git push; }; f", True), ("rm *", "function rm { ls; }", False),
        ("git push *", "coproc git push", True), ("git push *", "coproc c { git push; }", True),
        ("git push *", "coproc c while git push; do ls; done", True), ("git push *", "time -p git push", True),
        ("git push *", "time -- git push", True), ("git push *", "time -p -- ! git push", True),
        # programs that start others
        ("git push *", "npx git push", True), ("git push *", "npm exec -- git push", True),
        ("git push *", "npm x git push", True), ("git push *", "uv run git push", True), ("git push *", "uvx git push", True),
        ("git push *", "poetry run git push", True), ("git push *", "bundle exec git push", True),
        ("git push *", "docker run x git push", True), ("git push *", "docker compose run x git push", True),
        ("git push *", "docker exec x sh -c 'git push'", True), ("git push *", "kubectl exec x -- git push", True),
        ("git push *", "tmux new -d git push", True), ("git push *", "tmux new -d 'git push'", True),
        ("git push *", "screen -dm git push", True), ("git push *", "runuser -u me git push", True),
        ("git push *", "pkexec git push", True), ("git push *", "dbus-run-session -- git push", True),
        ("git push *", "xvfb-run git push", True), ("git push *", "/lib64/ld-linux-x86-64.so.2 /usr/bin/git "
                                                                  "push", True),
        ("git push *", "git shell -c 'git push'", True), ("git push *", "git remote-ext 'git push'", True),
        ("git push *", "git config core.pager 'git push'", True), ("git push *", "mvn -Dx='git push' exec:exec", True),
        ("git push *", "git archive --remote='ext::git push'", None), ("git push *", "git clone 'ext::git push'", None),
        # scripts of editors, other names, and what does the same
        ("git push *", "sed '1e git push' x", None), ("git push *", "vim -c '!git push'", None),
        ("git push *", "vim '+!git push'", None), ("git push *", "sed 's/a/b/' x", False), ("git push *", "vim git", False),
        ("git push *", "cp /usr/bin/git g; ./g push", None), ("git push *", "mv cp g", False),
        ("git push *", "run0 git push", True), ("git push *", "chronic git push", True),
        ("git push *", "hash -p /usr/bin/git g; g push", None), ("git push *", "alias g=git; g push", None),
        ("git push *", "alias g='/usr/bin/git push'", None), ("git push *", "ln -s /usr/bin/git g; ./g "
                                                                            "push", None),
        ("git push *", "alias ll='ls -l'", False), ("git push *", "git send-pack x", None),
        ("git push *", "git fetch-pack", False),
        ("git push *", "npm install git", False), ("git push *", "docker build x", False), ("rm *", "python -m pip rm", False),
    ])  # fmt: skip
    def test_a_denial_covers_every_part(self, rule: str, line: str, expected: bool | None) -> None:
        assert denies(f"shell({rule})", line) is expected

    @pytest.mark.parametrize("line", LONG_LINES)
    def test_a_long_line_is_judged_and_a_longer_one_is_not(self, line: str) -> None:
        assert not allows("shell(ls *)", line)
        assert denies("shell(rm *)", line) is not True
        assert not allows("shell(*)", "ls " + line * 2)
        assert denies("shell(rm *)", line * 2 + "; rm x") is None

    def test_what_is_understood_is_what_bash_runs(self, tmp_path: Path) -> None:
        """Random lines in one bash, in which no program exists: every command that it would start was among
        those returned.
        """
        for name in ("p", "q", "-p"):
            (tmp_path / name).touch()
        generator = random.Random(14)
        pieces = [
            *"pq1- \t\n'\"\\;&|<>*?[]{}()#~=!/$`:%^,.",
            "p ",
            " q",
            "&&",
            "||",
            " 2>&1",
            ">/dev/null",
            "p=1 ",
            "if ",
            "HEAD~1",
        ]
        lines = ["".join(generator.choices(pieces, k=generator.randint(1, 9))) for _ in range(6000)]
        clear = [line for line in lines if not split_command(line).unclear]
        assert len(clear) > 800
        script = (
            "command_not_found_handle() { printf '%s\\0' \"$@\" $'\\1' >&9; }\nwhile IFS= read -r -d "
            "'' "
            "line; do\n"
        )
        script += "eval \"$line\" </dev/null >/dev/null 2>&1; wait; printf '\\2\\0' >&9; done"
        command = ["bash", "--norc", "-c", f"exec 9>out\n{script}"]
        environment = {"PATH": "/nowhere", "HOME": str(tmp_path)}
        data = b"".join(line.encode() + b"\0" for line in clear)
        bash = next(path for path in ("/bin/bash", "/usr/bin/bash") if Path(path).exists())
        subprocess.run(
            command, executable=bash, input=data, cwd=tmp_path, env=environment, check=True, timeout=120
        )
        runs = (tmp_path / "out").read_bytes().decode().split("\2\0")
        assert len(runs) == len(clear) + 1
        seen = 0
        for line, run in zip(clear, runs, strict=False):
            started = Counter(tuple(words.split("\0")[:-1]) for words in run.split("\1\0") if words)
            seen += started.total()
            assert not started - Counter(split_command(line).commands), line
        assert seen > 500

    def test_what_bash_runs_is_denied(self, tmp_path: Path) -> None:
        """Random lines in one bash, in which no program exists: a denial misses no command that bash starts
        itself.
        """
        generator = random.Random(7)
        lines = [random_line(generator, number) for number in range(1500)]
        script = (
            "command_not_found_handle() { printf '%s\\0' \"$@\" $'\\1' >&9; }\nwhile IFS= read -r -d "
            "'' "
            "line; do\n"
        )
        script += '(FUNCNEST=9; ulimit -t 1; eval "$line") </dev/null >/dev/null 2>&1; done; wait'
        environment = {"PATH": "/nowhere", "HOME": str(tmp_path)}
        bash = next(path for path in ("/bin/bash", "/usr/bin/bash") if Path(path).exists())
        subprocess.run(
            ["bash", "--norc", "-c", f"exec 9>out\n{script}"],
            executable=bash,
            input=b"".join(line.encode() + b"\0" for line in lines),
            cwd=tmp_path,
            env=environment,
            check=True,
            timeout=60,
        )
        # What runs in the background may be late: each command has the number of its line.
        started = (tmp_path / "out").read_bytes().decode().split("\1\0")
        runs = [words.split("\0") for words in started if words.startswith("p\0q\0")]
        numbers = {int(words[2]) for words in runs if words[2].isdigit() and int(words[2]) < len(lines)}
        assert [
            lines[number] for number in sorted(numbers) if denies("shell(p q)", lines[number]) is False
        ] == []
        assert len(numbers) > 700


def path(value: str) -> Subject:
    return Subject("path", value, "/work")


class TestPaths:
    @pytest.mark.parametrize(("pattern", "value", "expected"), [
        ("src/**", "/work/src/a.py", True), ("src/**", "/work/src/b/c/a.py", True), ("src/", "/work/src/a.py", True),
        ("src/*.py", "/work/src/a.py", True), ("./src/*", "/work/src/a.py", True), ("**", "/work/a", True),
        ("**/*.md", "/work/a.md", True), ("**/*.md", "/work/x/y/a.md", True), ("a/**/z", "/work/a/z", True),
        ("a?c", "/work/abc", True),
        ("/data/**", "/data/x", True), ("/work/src/*", "/work/src/a", True), ("**", "/work/.env", True),
        ("src/**", "/work/src", False), ("src/**", "/work/srcs/a", False), ("src/**", "/work/a/src/b", False),
        ("src/*", "/work/src/a/b", False),
        ("**", "/other/a", False), ("**", "/workspace/a", False), ("**", "/work/../etc/passwd2", True),
        ("a.c", "/work/abc", False),
        ("/data/**", "/database", False), ("src", "/work/src/a", False), ("[ab]", "/work/a", False),
    ])  # fmt: skip
    def test_patterns(self, pattern: str, value: str, expected: bool) -> None:
        rules = RuleSet([f"write({pattern})"], [f"write({pattern})"])
        assert bool(rules.find_approval("write", [path(value)])[0]) is expected
        assert (rules.find_denial("write", [path(value)]) is not None) is expected

    def test_all_paths_must_be_allowed_and_one_is_enough_to_deny(self) -> None:
        rules = RuleSet(["patch(src/**)"], ["patch(lib/**)"])
        both = [path("/work/src/a"), path("/work/lib/a")]
        assert rules.find_approval("patch", both[:1])[0]
        assert rules.find_approval("patch", both) == ((), "no rule allows '/work/lib/a'")
        assert rules.find_denial("patch", both) == (parse_rule("patch(lib/**)"), True)


class TestAddresses:
    @pytest.mark.parametrize(("pattern", "url", "approved", "denied"), [
        ("a.org", "https://a.org/x?y", True, True), ("a.org", "http://A.ORG./", True, True),
        ("a.org", "https://a.org:443/", True, True),
        ("a.org", "https://a.org:8080/", False, True), ("a.org:8080", "https://a.org:8080/", True, True),
        ("a.org", "https://b.a.org/", False, True), ("*.a.org", "https://b.a.org/", True, True),
        ("*.a.org", "https://a.org/", False, False),
        ("a.org", "https://xa.org/", False, False), ("a.org", "https://a.org.evil.com/", False, False),
        ("*", "https://b.org:1/", True, True),
        ("a.org", "https://a.org@evil.com/", False, False), ("a.org", "https://evil.com/a.org", False, False),
        ("a.org", "https://evil.com\\@a.org/", False, False), ("a.org", "ftp://a.org/", False, False),
        ("a.org", "a.org", False, False),
        ("https://a.org", "http://a.org/", False, False), ("https://a.org", "https://a.org/", True, True),
        ("a.org/3/**", "https://a.org/3/x", True, True), ("a.org/3/**", "https://a.org/2/x", False, False),
        ("a.org/3/**", "https://a.org/3/x?secret", False, True), ("a.org/3/**", "https://a.org/3/../2", False, True),
        ("a.org/3/**", "https://a.org/3/%2e%2e/2", False, True), ("a.org/3/x", "https://a.org/3/x?", False, True),
        ("[::1]", "http://[::1]/", False, False), ("a.org", "https://a.org:x/", False, False),
    ])  # fmt: skip
    def test_patterns(self, pattern: str, url: str, approved: bool, denied: bool) -> None:
        rules = RuleSet([f"web_open({pattern})"], [f"web_open({pattern})"])
        subjects = [Subject("address", url)]
        assert bool(rules.find_approval("web_open", subjects)[0]) is approved
        assert (rules.find_denial("web_open", subjects) is not None) is denied


STEPS = [Subject("text", "q", tool="web_search"), Subject("address", "https://a.org/", tool="web_open")]


class TestNames:
    @pytest.mark.parametrize(("rule", "is_allowed"), [
        ("web", True), ("web_*", False), ("web*", True), ("web_search", False), ("web_search(*)", False),
        ("web_open", False), ("web(*)", True),
        ("web_open(*)", False), ("web_find", False),
    ])  # fmt: skip
    def test_a_call_of_several_steps_needs_rules_for_each(self, rule: str, is_allowed: bool) -> None:
        rules = RuleSet([rule], [])
        if rule != "web_*":
            assert bool(rules.find_approval("web", STEPS)[0]) is is_allowed
        assert RuleSet(["web_search(q)", "web_open(a.org)"], []).find_approval("web", STEPS)[0]

    @pytest.mark.parametrize(
        "rule", ["web_open", "web_find", "web_search", "web", "web_open(a.org)", "web_search(q)", "*"]
    )
    def test_denying_a_part_denies_the_whole(self, rule: str) -> None:
        assert RuleSet([], [rule]).find_denial("web", STEPS) is not None

    def test_a_rule_for_write_is_about_every_tool_that_changes_files(self) -> None:
        rules = RuleSet(["write(src/**)"], ["write(src/gen/**)"])
        subject = Subject("path", "/work/src/a", "/work", "write")
        assert rules.find_approval("edit", [subject])[0]
        assert rules.find_denial("edit", [Subject("path", "/work/src/gen/a", "/work", "write")]) is not None
        assert not rules.find_approval("read", [path("/work/src/a")])[0]

    def test_models_own_names(self) -> None:
        rules = RuleSet(
            ["Bash(ls *)"], ["Bash(rm *)"], PolicyNames(lambda name: ("shell",) if name == "Bash" else ())
        )
        assert rules.find_approval("shell", [Subject("command", "ls x")])[0]
        assert rules.find_denial("shell", [Subject("command", "rm x")]) is not None
        assert not rules.find_approval("write", [Subject("command", "ls x")])[0]

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "shell(",
            "shell()",
            "shell( )",
            "shell)(",
            "a b",
            "(x)",
            "write(~/x)",
            "write(../x)",
            "a(b\nc)",
        ],
    )
    def test_what_is_not_a_rule(self, text: str) -> None:
        with pytest.raises(UsageError, match=r"is not a rule: "):
            parse_rule(text)
        for field in ("approve", "deny"):
            with pytest.raises(UsageError, match=r"is not a rule: "):
                ToolConfig(**{field: [text]})  # pyright: ignore[reportArgumentType]


def make(**options: Any) -> Tool:
    def act(what: str) -> str:
        """Do it."""
        return what

    defaults: dict[str, Any] = {"tags": {"builtin"}, "effects": "write"}
    return Tool(act, **{**defaults, **options})


def judge(
    config: ToolConfig, tool: Tool, *, can_ask: bool = False, what: str = "x"
) -> tuple[str, str, str, bool]:
    verdict = ToolPolicy().judge(tool, make_caller(config, can_ask=can_ask), {"what": what})
    return verdict.action, verdict.code, verdict.decided_by, verdict.each_time


def text_scope(arguments: dict[str, Any]) -> list[Subject]:
    return [Subject("text", arguments["what"])]


SCOPE: dict[str, Any] = {"scope": text_scope}


class TestVerdicts:
    def test_built_in_tools_need_somebody_who_decides(self) -> None:
        assert judge(ToolConfig(), make())[:2] == ("refuse", "approval_required")
        assert judge(ToolConfig(), make(), can_ask=True)[0] == "ask"
        assert judge(ToolConfig(ask={"write"}), make())[0] == "ask"
        assert judge(ToolConfig(ask={"execute"}), make())[0] == "run"
        assert judge(ToolConfig(ask=()), make())[0] == "run"
        assert judge(ToolConfig(approve=["act"]), make())[0] == "run"

    def test_others_are_as_they_were(self) -> None:
        assert judge(ToolConfig(), make(tags=()))[0] == "run"
        assert judge(ToolConfig(), make(tags=(), approval=True))[0] == "ask"
        assert judge(ToolConfig(ask={"write"}), make(tags=()))[0] == "ask"
        assert judge(ToolConfig(), make(effects="read"))[0] == "run"

    def test_quiet_depends_on_the_arguments(self) -> None:
        def is_kept(arguments: dict[str, Any]) -> bool:
            return arguments["what"] == "kept"

        quiet_tool = make(quiet=is_kept)
        assert judge(ToolConfig(), quiet_tool, what="kept")[0] == "run"
        assert judge(ToolConfig(), quiet_tool, what="new")[0] == "refuse"
        assert ToolPolicy().judge(quiet_tool, make_caller(ToolConfig())).action == "refuse"

    def test_rules_and_who_decided(self) -> None:
        config = ToolConfig(approve=["act(a*)"], deny=["act(ab)"])
        assert judge(config, make(**SCOPE), what="ac") == ("run", "", "rule", False)
        assert judge(config, make(**SCOPE), what="ab") == ("refuse", "denied", "rule", False)
        assert judge(config, make(**SCOPE), what="b", can_ask=True) == ("ask", "", "policy", False)
        doubtful = judge(config, make(), what="ac", can_ask=True)
        assert (doubtful[0], doubtful[3]) == ("ask", True)  # neither "always" nor --yes decides it
        # the tool does not say what it is about
        assert judge(config, make(), what="ac", can_ask=True)[0] == "ask"
        assert judge(config, make(approval=False, **SCOPE), what="ab")[0] == "refuse"
        assert judge(ToolConfig(approve=["act"], deny=["act(b)"]), make(), can_ask=True)[0] == "ask"

    def test_no_rule_covers_what_needs_an_answer_of_its_own(self) -> None:
        def leaves(_: dict[str, Any]) -> str:
            return "it runs outside the sandbox"

        asking_tool = make(always_ask=leaves, approval=False)
        config = ToolConfig(approve=["act"])
        policy, caller = ToolPolicy(), make_caller(config, can_ask=True)
        policy.allow_always(asking_tool)
        verdict = policy.judge(asking_tool, caller, {"what": "x"})
        assert (verdict.action, verdict.reason, verdict.each_time) == (
            "ask",
            "it runs outside the sandbox",
            True,
        )
        assert judge(config, asking_tool)[:2] == ("refuse", "approval_required")
        assert judge(ToolConfig(deny=["act"]), asking_tool, can_ask=True)[0] == "refuse"

    @pytest.mark.parametrize("option", ["quiet", "always_ask"])
    def test_a_tool_that_cannot_say_is_asked_about(self, option: str) -> None:
        def fail(arguments: dict[str, Any]) -> Any:
            raise KeyError(arguments["nothing"])

        verdict = ToolPolicy().judge(
            make(**{option: fail}), make_caller(ToolConfig(approve=["act"]), can_ask=True), {"what": "x"}
        )
        assert (verdict.action, verdict.each_time) == ("ask", True)
        assert "cannot say" in verdict.reason

    @pytest.mark.parametrize(("config", "action", "reason"), [
        (ToolConfig(), "x", "it can change files, and no rule allows it"),
        (ToolConfig(approve=["act(a)"]), "x", "it can change files, and no rule allows 'x'"),
        (ToolConfig(approve=["act(x)"]), "x", "the rule 'act(x)' allows it"),
        (ToolConfig(approve=["act"], deny=["act(x)"]), "x", "the rule 'act(x)' denies it"),
        (ToolConfig(ask=()), "x", "it needs no approval"),
    ])  # fmt: skip
    def test_reasons(self, config: ToolConfig, action: str, reason: str) -> None:
        assert (
            ToolPolicy().judge(make(**SCOPE), make_caller(config, can_ask=True), {"what": action}).reason
            == reason
        )

    def test_a_refusal_says_how_to_allow(self) -> None:
        agent = Agent("simulator", tools=[make()], facade="neutral")
        (outcome,) = agent.run_sync('call act {"what": "x"}').outcomes
        assert (outcome.ran, outcome.result.error_code, outcome.result.error_kind) == (
            False,
            "approval_required",
            "not_allowed",
        )
        for words in ("approve=", "ToolConfig(approve=[…])", "ToolConfig(ask=())"):
            assert words in outcome.result.text
        config = ToolConfig(deny=["act(x)"])  # the tool does not say what it is about, and no rule would help
        agent = Agent("simulator", tools=[make()], facade="neutral", config=config)
        text = agent.run_sync('call act {"what": "x"}').outcomes[0].result.text
        assert ("approve=…" in text, "ToolConfig" in text) == (True, False)
