"""Tables of a run: costs and their ratios to ours, growth, crowds, and the goals."""

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from bench.loop.goals import TIMES, goals
from bench.loop.plan import CROWDS, GROWTH, LOOPS, OURS, RUNNERS, STREAMS, plan
from bench.loop.run import Results, Samples, run
from bench.loop.scenarios import ALL, WIRES
from bench.measure import Table

MICRO, MILLI = 1e6, 1e3
Read = Callable[[Samples], float | None]


@cache
def _results(quick: bool) -> Results:
    return run(plan(quick=quick))


def loop_table(*, quick: bool) -> Table:
    """The whole run, then what it cost. The other tables show the same run."""
    return build_cost_table(_results(quick))


def growth_table(*, quick: bool) -> Table:
    return build_growth_table(_results(quick))


def crowd_table(*, quick: bool) -> Table:
    return build_crowd_table(_results(quick))


def goals_table(*, quick: bool) -> Table:
    return build_goal_table(_results(quick))


def build_tables(results: Results, *, whole: bool = True) -> list[Table]:
    """All tables that have something to show.

    Not `whole`: goals that were left out on purpose are not listed.
    """
    goals = build_goal_table(results, only_measured=not whole)
    return [
        table
        for table in (
            build_cost_table(results),
            build_growth_table(results),
            build_crowd_table(results),
            build_import_table(results),
            goals,
        )
        if table.rows
    ]


def build_cost_table(results: Results) -> Table:
    columns = {name: _column(name) for name in (*STREAMS, *LOOPS)}
    titles = [f"{name} {ALL[name].title}" for name in (*STREAMS, *LOOPS[:3])]
    note = " · ".join(titles[:3]) + "\n" + " · ".join(titles[3:]) + "\n"
    note += f"µs per event (S1, S2, S1P), ms per turn (S3 to S5); in brackets: ÷ {OURS}"
    table = Table("The tool loop: CPU of the client", note)
    return _fill_table(table, results, columns)


def _column(name: str) -> Callable[[Results, str, str], str | None]:
    scale = MICRO if ALL[name].unit == "event" else MILLI

    def cell(results: Results, wire: str, runner: str) -> str | None:
        return _cell(results, wire, runner, name, lambda samples: samples.unit_cost, scale)

    return cell


def _cell(results: Results, wire: str, runner: str, scenario: str, read: Read, scale: float) -> str | None:
    samples = results.find_samples(wire, runner, scenario)
    if samples is None:
        return None
    if (value := read(samples)) is None:
        return "failed" if samples.failure else None
    ours = results.find_samples(wire, OURS, scenario)
    own_value = None if ours is None or runner == OURS else read(ours)
    return _digits(value * scale) + (
        f" ({_digits(value / own_value)}{TIMES})" if own_value and own_value > 0 else ""
    )


def _digits(value: float) -> str:
    return f"{value:,.{2 if value < 10 else 1 if value < 100 else 0}f}"


def build_growth_table(results: Results) -> Table:
    def slope(scenario: str) -> Callable[[Results, str, str], str | None]:
        return lambda results, wire, runner: _cell(
            results, wire, runner, scenario, lambda samples: samples.slope, MICRO
        )

    def turns(scenario: str) -> Callable[[Results, str, str], str | None]:
        def cell(results: Results, wire: str, runner: str) -> str | None:
            samples = results.find_samples(wire, runner, scenario)
            values = samples.early_and_late_turns if samples else None
            return None if values is None else " → ".join(_digits(MILLI * time) for time in values)

        return cell

    columns = {
        "S4 µs/turn": slope("S4"),
        "S4 ms, turns 2-5 → 47-50": turns("S4"),
        "S5 µs/turn": slope("S5"),
        "S5 ms, turns 2-5 → 47-50": turns("S5"),
        **{f"{name} µs/event": _column(name) for name in GROWTH[1:]},
        **{f"live {name} µs/event": _column(f"{name}-live") for name in GROWTH[1:]},
    }
    note = f"what a turn costs more than the one before; arguments of 5 and 39 KB; in brackets: ÷ {OURS}"
    return _fill_table(Table("Growth: CPU of the client", note), results, columns)


def build_crowd_table(results: Results) -> Table:
    def read(scenario: str, what: Read) -> Callable[[Results, str, str], str | None]:
        def cell(results: Results, wire: str, runner: str) -> str | None:
            samples = results.find_samples(wire, runner, scenario)
            value = None if samples is None else what(samples)
            return None if value is None else str(value) if isinstance(value, int) else _digits(value)

        return cell

    columns: dict[str, Callable[[Results, str, str], str | None]] = {}
    for name in CROWDS:
        columns |= {
            f"{name} ms each": _column(name),
            f"{name} wall s": read(name, lambda samples: samples.wall),
            f"{name} MB": read(name, lambda samples: samples.peak),
            f"{name} MB more": read(name, lambda samples: samples.growth),
            f"{name} errors": read(name, lambda samples: samples.errors),
        }
    return _fill_table(
        Table("Conversations of S3 at once, in one process: CPU of the client", f"in brackets: ÷ {OURS}"),
        results,
        columns,
    )


def build_import_table(results: Results) -> Table:
    table = Table("Import: beyond a bare interpreter")
    for name, values in results.imports.items():
        table.rows.append({"": name, "CPU ms": MILLI * values.cpu, "MB": values.memory})
    return table


def build_goal_table(results: Results, *, only_measured: bool = False) -> Table:
    """Every goal, and whether it was reached."""
    table = Table("Goals of the loop")
    for goal in goals():
        figure = goal.figure(results)
        if figure is None and only_measured:
            continue
        state = "not measured" if figure is None else "reached" if figure.is_met else "MISSED"
        measured = None if figure is None else f"{figure.value:,.4g}{goal.unit}"
        table.rows.append(
            {
                "": goal.title,
                "level": goal.level,
                "goal": goal.target_text,
                "measured": measured,
                "state": state,
            }
        )
    return table


def _fill_table(
    table: Table, results: Results, columns: dict[str, Callable[[Results, str, str], str | None]]
) -> Table:
    """A row for each runner on each wire, without columns and rows that are empty."""
    rows: list[dict[str, Any]] = []
    for wire, runner in _pairs(results):
        cells = {name: column(results, wire, runner) for name, column in columns.items()}
        if any(cells.values()):
            rows.append({"": f"{wire} {runner}", **cells})
    used = {name for row in rows for name, cell in row.items() if cell is not None}
    table.rows = [{name: cell for name, cell in row.items() if name in used} for row in rows]
    for name in results.missing if rows else ():
        title, first, *others = table.rows[0]
        table.rows.append({title: name, first: "not installed", **dict.fromkeys(others)})
    return table


def _pairs(results: Results) -> Iterable[tuple[str, str]]:
    values = {(wire, runner) for wire, runner, _ in results.samples}
    return [(wire, runner) for wire in WIRES for runner in RUNNERS if (wire, runner) in values]
