"""Checks tools, the choice among them, and options against the profile's data."""

import re

from toolglot.request import Options, Request
from toolglot.simulator.refusals import Refusal
from toolglot.simulator.wires import WireRules

__all__ = ["check_options", "check_tools"]

_SAMPLING = ("temperature", "top_p", "top_k", "presence_penalty", "frequency_penalty")


def check_tools(request: Request, rules: WireRules) -> None:
    """Check names, number and schemas of the tools, and the choice among them."""
    limits = rules.profile.limits
    if limits.tools and len(request.tools) > limits.tools:
        lengths = f"maximum length {limits.tools}, but got an array with length {len(request.tools)} instead."
        text = f"Invalid 'tools': array too long. Expected an array with {lengths}"
        raise Refusal(text, code="array_above_max_length", param="tools")
    for tool in request.tools:
        rules.check_native_type(str((tool.opaque or {}).get("type", "")))
    seen: set[str] = set()
    for index, tool in enumerate(tool for tool in request.tools if tool.kind != "hosted"):
        if not re.fullmatch(limits.name, tool.name):
            raise rules.bad_tool_name(index)
        if tool.name in seen and (refusal := rules.duplicate_tool(tool.name)):
            raise refusal
        seen.add(tool.name)
        rules.check_schema(index, tool)
    _check_choice(request, rules)


def _check_choice(request: Request, rules: WireRules) -> None:
    choice, profile = request.tool_choice, rules.profile
    if choice is None:
        return
    names = {tool.name for tool in request.tools}
    if unknown := next((name for name in choice.names if name not in names), None):
        raise rules.unknown_choice(unknown)
    modes = {"required"} if choice.mode == "required" else set[str]()
    if choice.names:
        modes = {"named" if len(choice.names) == 1 and choice.mode == "required" else "subset"}
    if not modes - profile.features.choices:
        return
    if profile.reasoning_echo == "required":  # DeepSeek refuses it only while thinking is on
        if rules.requires_reasoning:
            raise Refusal("Thinking mode does not support this tool_choice")
        return
    model = profile.model or profile.title
    raise Refusal(f"tool_choice: this choice is not supported by {model}; use 'auto'", param="tool_choice")


def check_options(options: Options, rules: WireRules) -> None:
    """Check sampling parameters and stop sequences."""
    profile = rules.profile
    values = {name: getattr(options, name) for name in _SAMPLING if getattr(options, name) is not None}
    for name, value in values.items():
        if name not in profile.options:
            raise Refusal(f"Argument not supported: {name}", param=name)
        if profile.sampling == "none" and (refusal := rules.unsupported_option(name, value)):
            raise refusal
    if profile.sampling == "one" and {"temperature", "top_p"} <= values.keys():
        raise Refusal("`temperature` and `top_p` cannot both be specified for this model. Please use only one.")
    if not 0 <= values.get("temperature", 0) <= profile.max_temperature:
        raise rules.bad_temperature(values["temperature"])
    if options.stop and "stop" not in profile.options:
        raise Refusal("Argument not supported: stop", param="stop")
    limit = profile.limits.stops
    if limit and len(options.stop) > limit:
        text = f"Invalid 'stop': array too long. Expected an array with maximum length {limit}."
        raise Refusal(text, code="array_above_max_length", param="stop")
