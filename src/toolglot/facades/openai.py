"""DATA: tools for GPT models that have no Codex of their own: its older commands, and patches as a function.

The API's own tools for commands and patches (`shell`, `local_shell`, `apply_patch`) come under these names too, with arguments
of their own form: they are understood and answered here.
"""

from toolglot.facades.codex import ARGV_NOTE, OPERATION, OTHERS, apply_patch_function, shell_view, update_plan, view_image
from toolglot.facades.view import Facade

__all__ = ["TABLES"]

TABLES = (
    Facade(
        id="openai",
        title="OpenAI",
        views=(
            shell_view(patches=False),
            apply_patch_function(accepts=OPERATION),
            update_plan(),
            view_image(detail=False),
        ),
        shows=OTHERS,
        note=(
            f"{ARGV_NOTE} Change files with apply_patch only. Keep longer work in update_plan. "
            "Look at the lines that you change before you change them."
        ),
    ),
)
