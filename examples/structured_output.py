"""Get typed values instead of text: one type for the agent, another for a single run."""

from pydantic import BaseModel

from toolglot import Agent, tool


class City(BaseModel):
    """A city."""

    name: str
    population: int


@tool
def look_up(city: str) -> dict[str, str | int]:
    """Look up facts about a city."""
    return {"city": city, "population": 2_100_000}


agent = Agent("simulator", tools=[look_up], output_type=City)
result = agent.run_sync("""
call look_up {"city": "Paris"}
then say {"name": "Paris", "population": 2100000}
""")
print(result.output.name, result.output.population)  # a City, for type checkers too

prompt = 'say [{"name": "Rome", "population": 2800000}]'
cities = agent.run_sync(prompt, output_type=list[City]).output
print([city.name for city in cities])

# Output:
# Paris 2100000
# ['Rome']
