"""DATA: tools for GPT models outside of Codex: as functions, and as the API's own `shell` and `apply_patch`.

The API's own tools are declared by their type to models that know them; their calls are answered here, with the output and the
exit code of each command. Elsewhere they are functions with the same parameters.
"""

from toolglot.facades.codex import ARGV_NOTE, HIDES, SEARCH_HINT, make_update_plan, make_view_image
from toolglot.facades.gpt.commands import HOSTED_SHELL, make_shell
from toolglot.facades.gpt.legacy import LEGACY_VIEWS
from toolglot.facades.gpt.patches import APPLY_PATCH_OPERATION, OPERATION_PARAMETERS, make_apply_patch_function
from toolglot.facades.gpt.web import WEB_SEARCH
from toolglot.facades.view import Facade

__all__ = ["TABLES"]

_COMMON_VIEWS = (make_update_plan(), make_view_image(has_detail=False), WEB_SEARCH, *LEGACY_VIEWS)
_NOTE = "Change files only with apply_patch. Track multi-step work with update_plan. Look at lines before you change them."
TABLES = (
    Facade(
        id="openai",
        title="OpenAI",
        views=(make_shell(applies_patches=False), make_apply_patch_function(accepts=OPERATION_PARAMETERS), *_COMMON_VIEWS),
        hides=HIDES,
        note=f"{ARGV_NOTE} {_NOTE}",
    ),
    Facade(
        id="openai-hosted",
        title="OpenAI hosted shell and apply_patch",
        views=(HOSTED_SHELL, APPLY_PATCH_OPERATION, *_COMMON_VIEWS),
        hides=HIDES,
        note="Run commands with shell; each runs in bash on Linux, in a sandbox, and starts in the workspace: "
        f"{SEARCH_HINT} {_NOTE}",
    ),
)
