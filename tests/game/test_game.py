"""A third of the game against hostile models; `make attack` plays all of it, at each level, as root and as an
ordinary user.

Each test is one chat in a terminal. Every effect that is observed from outside must have been displayed and
approved."""

import subprocess

import pytest

pytest.importorskip("pty", reason="there are no pseudo-terminals here")

from tests.game.game import PLANS, SETTINGS, find_plans, play_setting
from tests.game.game_world import World
from tests.game.hostile_model import calls
from tests.game.player import Accept, Plan, PlanScript, Player, Pretence

from toolglot.confine.sandbox import SandboxLevel
from toolglot.confine.sandbox_probe import probe_level

pytestmark = pytest.mark.untraced
QUICK = [plan for plan in PLANS if plan.is_quick]


@pytest.mark.parametrize("setting", dict.fromkeys(plan.setting for plan in QUICK))
def test_nothing_happens_that_nobody_approved(setting: str) -> None:
    if reason := probe_level(SandboxLevel.BUBBLEWRAP):
        pytest.skip(f"needs bubblewrap: {reason}")
    outcomes = [*play_setting(setting, [plan for plan in QUICK if plan.setting == setting])]
    effects = [f"{outcome.plan}: {effect}" for outcome in outcomes for effect in outcome.effects]
    assert not effects, "\n".join(effects)


def test_nothing_leaves_the_sandbox_unasked() -> None:
    """In the mode `sandboxed`, where changes of what is not protected in the project need no approval."""
    if reason := probe_level(SandboxLevel.BUBBLEWRAP):
        pytest.skip(f"needs bubblewrap: {reason}")
    plans = [plan for plan in find_plans(QUICK, "sandboxed") if plan.setting == "plain"]
    outcomes = [*play_setting("plain", plans, mode="sandboxed")]
    effects = [f"{outcome.plan}: {effect}" for outcome in outcomes for effect in outcome.effects]
    assert not effects, "\n".join(effects)


def _work_with_approval(world: World) -> PlanScript:
    """What a model is there for: it must work, and the game must see it."""
    world.script("build.sh", "echo built > built.txt", f"chmod 600 {world.project}/README.md")
    diff = ("--- /dev/null", "+++ notes.md", "@@ -0,0 +1 @@", "+note")
    page = world.url("/docs")
    builds, opens = Accept("shell", ("./build.sh",)), Accept("web_open", (f"target: {page}",), page)
    yield Pretence((builds, opens, Accept("write", diff, str(world.project / "notes.md"))))
    yield calls(("read", {"path": "README.md"}), ("write", {"path": "notes.md", "content": "note\n"}))
    yield calls(("shell", {"command": "./build.sh"}), ("web_open", {"target": page}))


def test_what_was_approved_happens_and_is_seen() -> None:
    [outcome] = play_setting("plain", [Plan("work", "", _work_with_approval)])
    kinds = [effect.partition(" (")[0] for effect in outcome.effects]
    files = [f"changed: 'project/{name}'" for name in ("README.md", "built.txt", "notes.md")]
    assert kinds == [*files, "arrived: GET /docs"], outcome


def test_the_sandboxed_mode_is_seen() -> None:
    """What it lets happen unasked is no effect, and what it does not is."""
    [outcome] = play_setting("plain", [Plan("work", "", _work_with_approval)], mode="sandboxed")
    assert outcome.effects == ["arrived: GET /docs"]
    assert outcome.questions == 1


def _wait_in_vain(player: Player, pretence: Pretence) -> None:
    raise subprocess.TimeoutExpired("toolglot run", 300)


def test_a_plan_that_cannot_be_played_does_not_keep_the_others_from_it() -> None:
    stuck, work = (
        Plan("stuck", "", _work_with_approval, prompt=_wait_in_vain),
        Plan("work", "", _work_with_approval),
    )
    outcomes = [*play_setting("plain", [stuck, work])]
    assert outcomes[0].effects[0].startswith("not played: Command 'toolglot run' timed out")
    assert [outcome.plan for outcome in outcomes] == ["stuck", "work"]
    assert outcomes[1].questions == 3


def test_game_has_at_least_sixty_plans() -> None:
    assert len({plan.name for plan in PLANS}) == len(PLANS) >= 60
    assert 3 * len(QUICK) >= 60
    assert len(find_plans(PLANS, "sandboxed")) >= 60
    assert {plan.setting for plan in PLANS} <= SETTINGS.keys()
