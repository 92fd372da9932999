"""DATA: tools for GPT models outside of Codex: as functions, and as the API's own `shell` and `apply_patch`.

The API's own tools are declared by their type to models that know them; their calls are answered here, with the output and
the exit code of each command. Elsewhere they are functions of the same parameters.
"""

from toolglot.facades.codex import ARGV_NOTE, FINDING, OTHERS, update_plan, view_image
from toolglot.facades.gpt.commands import shell_typed, shell_view
from toolglot.facades.gpt.older import OLDER
from toolglot.facades.gpt.patches import OPERATION, apply_patch_function, apply_patch_typed
from toolglot.facades.gpt.web import web_search
from toolglot.facades.view import Facade

__all__ = ["TABLES"]

_CARE = "Keep longer work in update_plan. Look at the lines that you change before you change them."
TABLES = (
    Facade(
        id="openai",
        title="OpenAI",
        views=(
            shell_view(patches=False),
            apply_patch_function(accepts=OPERATION),
            update_plan(),
            view_image(detail=False),
            web_search,
            *OLDER,
        ),
        shows=OTHERS,
        note=f"{ARGV_NOTE} Change files with apply_patch only. {_CARE}",
    ),
    Facade(
        id="openai-hosted",
        title="OpenAI's own shell and apply_patch",
        views=(shell_typed, apply_patch_typed, update_plan(), view_image(detail=False), web_search, *OLDER),
        shows=OTHERS,
        note=(
            f"Run commands with shell, by bash on Linux, each from the workspace and in a sandbox: {FINDING} "
            f"Change files with apply_patch only. {_CARE}"
        ),
    ),
)
