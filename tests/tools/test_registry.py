"""Tools by name: one for each, every change a new version, safe under threads."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier
from typing import Any

import pytest

from toolglot.errors import InvalidTool, NameConflict, UnknownName
from toolglot.tools.registry import ToolRegistry
from toolglot.tools.tool import Tool, tool, tool_from_schema


def look(city: str) -> str:
    """Looks."""
    return city


def find(city: str) -> str:
    """Finds."""
    return city


def anything(**options: Any) -> Any:
    return options


def make_tool(name: str, **options: Any) -> Tool:
    return tool_from_schema(name, f"{name}.", {"type": "object", "properties": {}}, anything, **options)


def names(registry: ToolRegistry) -> list[str]:
    return [item.name for item in registry]


def test_register_get_list_unregister() -> None:
    registry = ToolRegistry([look])
    registered = registry.register(find)
    assert names(registry) == ["look", "find"]
    assert registry.list() == [registry.get("look"), registered]
    assert registry.get("find") is registered
    assert len(registry) == 2
    assert "look" in registry
    assert registered in registry
    assert make_tool("find") not in registry
    assert "nobody" not in registry
    assert registry.unregister("find") is registered
    assert names(registry) == ["look"]
    assert repr(registry) == "ToolRegistry(look)"


def test_a_function_is_registered_by_a_name() -> None:
    registry = ToolRegistry()
    registered = registry.register("get_x", partial(find))
    assert (registry.get("get_x"), registered.name, registered("Rome")) == (registered, "get_x", "Rome")
    renamed = registry.register("other", tool(look))
    assert (renamed.name, names(registry)) == ("other", ["get_x", "other"])
    with pytest.raises(NameConflict, match="two tools are called 'other'"):
        registry.register("other", lambda: 1)
    registry.register("other", lambda: 1, replace=True)
    wrong: Any = registry.register
    for arguments in (("get_y",), (len, "get_y"), ("get_y", 5)):
        with pytest.raises(InvalidTool):
            wrong(*arguments)


@pytest.mark.parametrize("name", ["nope", "cat", "bash"])
def test_a_name_that_is_like_no_other_lists_all_tools(name: str) -> None:
    names = [
        "ask_user",
        "edit",
        "glob",
        "grep",
        "insert",
        "list_dir",
        "memory",
        "patch",
        "read",
        "shell",
        "web_open",
        "write",
    ]
    with pytest.raises(UnknownName) as e:
        ToolRegistry(map(make_tool, names)).get(name)
    assert str(e.value) == f"unknown tool {name!r}; known: {', '.join(names)}"


def test_unknown_names_offer_the_nearest() -> None:
    registry = ToolRegistry([look, find])
    for ask in (registry.get, registry.unregister):
        with pytest.raises(UnknownName, match="unknown tool 'lok'; did you mean 'look'"):
            ask("lok")


@pytest.mark.parametrize("name", ["nothing like it", "x" * 1_000_000, "", "\ud800"])
def test_unknown_names_are_reported_in_a_few_words(name: str) -> None:
    registry = ToolRegistry(make_tool(f"tool_{n}") for n in range(1000))
    with pytest.raises(UnknownName) as e:
        registry.get(name)
    assert len(str(e.value)) < 600
    str(e.value).encode()
    assert e.value.name == name


def test_a_conflict_names_both() -> None:
    registry = ToolRegistry([look])
    other = Tool(find, name="look")
    with pytest.raises(NameConflict, match=r"two tools are called 'look': \S+\.look and \S+\.find"):
        registry.register(other)
    assert registry.get("look").function is look
    registry.register(other, replace=True)
    assert registry.get("look") is other
    registry.register(other)
    assert len(registry) == 1


def test_merge_is_all_or_nothing() -> None:
    registry = ToolRegistry([look])
    with pytest.raises(NameConflict, match="look"):
        registry.merge(ToolRegistry([find, Tool(find, name="look")]))
    assert names(registry) == ["look"]
    registry.merge(ToolRegistry([find]))
    registry.merge([make_tool("more")])
    assert names(registry) == ["look", "find", "more"]
    with pytest.raises(NameConflict, match="new"):
        registry.merge([make_tool("new"), make_tool("new")])
    assert len(registry) == 3
    other = Tool(find, name="look")
    registry.merge([other], replace=True)
    assert (registry.get("look"), names(registry)) == (other, ["look", "find", "more"])


def test_every_change_is_a_version() -> None:
    registry = ToolRegistry()
    seen = [registry.version]
    registered = registry.register(look)
    seen.append(registry.version)
    registry.register(registered)
    assert registry.version == seen[-1], "nothing changed"
    registry.merge([find])
    seen.append(registry.version)
    registry.register(make_tool("look"), replace=True)
    seen.append(registry.version)
    registry.unregister("look")
    seen.append(registry.version)
    assert len(set(seen)) == len(seen)
    assert seen == sorted(seen)


def test_definitions_are_made_once_for_a_version() -> None:
    registry = ToolRegistry([look])
    first = registry.definitions()
    assert [definition.name for definition in first] == ["look"]
    assert registry.definitions() is first
    registry.register(find)
    assert [definition.name for definition in registry.definitions()] == ["look", "find"]
    assert ToolRegistry().definitions() == ()


def test_a_clone_goes_its_own_way() -> None:
    registry = ToolRegistry([look])
    clone = registry.clone()
    clone.register(find)
    registry.unregister("look")
    assert names(clone) == ["look", "find"]
    assert names(registry) == []


def test_namespaces() -> None:
    first = make_tool("find", namespace="one")
    two = make_tool("find", namespace="two")
    plain = make_tool("find")
    registry = ToolRegistry([first])
    assert registry.get("find") is first, "there is only one"
    registry.merge([two])
    assert (registry.get("find", "one"), registry.get("find", "two")) == (first, two)
    with pytest.raises(UnknownName, match=r"'(one|two)\.find' or '(one|two)\.find'"):
        registry.get("find")
    registry.register(plain)
    assert registry.get("find") is plain
    with pytest.raises(UnknownName, match=r"three\.find"):
        registry.get("find", "three")
    assert registry.unregister("find", "two") is two
    assert ("one", "find") in registry


def test_a_method_without_its_object() -> None:
    class Box:
        @tool
        def measure(self) -> int:
            return 1

    with pytest.raises(InvalidTool, match="method without its object"):
        ToolRegistry([Box.measure])
    assert names(ToolRegistry([Box().measure])) == ["measure"]


def test_merge_returns_the_registry() -> None:
    registry = ToolRegistry()
    assert registry.merge(ToolRegistry()) is registry


def test_threads() -> None:
    registry, start = ToolRegistry(), Barrier(8)

    def work(number: int) -> None:
        start.wait(5)
        for i in range(50):
            registry.register(make_tool(f"t{number}_{i}"))
            assert f"t{number}_{i}" in {definition.name for definition in registry.definitions()}
            assert registry.get(f"t{number}_{i}").name in registry
            if i % 2:
                registry.unregister(f"t{number}_{i}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert len(registry) == 8 * 25
    assert registry.version == 8 * 75
    assert len(registry.definitions()) == 200


def test_watchers_hear_of_every_change_and_of_nothing_else() -> None:
    registry, seen = ToolRegistry(), list[int]()
    first = make_tool("a")
    unwatch = registry.watch(lambda: seen.append(len(registry)))
    again = registry.watch(lambda: seen.append(-1))
    registry.register(first)
    registry.register(first)  # the same tool counts once
    again()
    registry.merge([make_tool("b"), make_tool("c")])
    registry.unregister("a")
    unwatch()
    unwatch()
    registry.register(make_tool("d"))
    assert seen == [1, -1, 3, 2]
