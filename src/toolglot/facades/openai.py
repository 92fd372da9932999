"""DATA: tools for GPT models outside of Codex: as functions, and as the API's own `shell` and `apply_patch`.

The API's own tools are declared by their type to models that know them; their calls are answered here, with the output and
the exit code of each command. Elsewhere they are functions of the same parameters.
"""

from toolglot.facades.codex import ARGV_NOTE, OTHER_BASE_TOOLS, SEARCH_HINT, make_update_plan, make_view_image
from toolglot.facades.gpt.commands import HOSTED_SHELL, make_shell
from toolglot.facades.gpt.legacy import LEGACY_VIEWS
from toolglot.facades.gpt.patches import APPLY_PATCH_OPERATION, OPERATION_PARAMETERS, make_apply_patch_function
from toolglot.facades.gpt.web import WEB_SEARCH
from toolglot.facades.view import Facade

__all__ = ["TABLES"]

_REVIEW_HINT = "Keep longer work in update_plan. Look at the lines that you change before you change them."
TABLES = (
    Facade(
        id="openai",
        title="OpenAI",
        views=(
            make_shell(applies_patches=False),
            make_apply_patch_function(accepts=OPERATION_PARAMETERS),
            make_update_plan(),
            make_view_image(has_detail=False),
            WEB_SEARCH,
            *LEGACY_VIEWS,
        ),
        shows=OTHER_BASE_TOOLS,
        note=f"{ARGV_NOTE} Change files with apply_patch only. {_REVIEW_HINT}",
    ),
    Facade(
        id="openai-hosted",
        title="OpenAI's own shell and apply_patch",
        views=(
            HOSTED_SHELL,
            APPLY_PATCH_OPERATION,
            make_update_plan(),
            make_view_image(has_detail=False),
            WEB_SEARCH,
            *LEGACY_VIEWS,
        ),
        shows=OTHER_BASE_TOOLS,
        note=(
            f"Run commands with shell, by bash on Linux, each from the workspace and in a sandbox: {SEARCH_HINT} "
            f"Change files with apply_patch only. {_REVIEW_HINT}"
        ),
    ),
)
