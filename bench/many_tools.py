"""300 tools of 20 made-up services, as an agent with many MCP servers has them.

`python -m bench.many_tools` prints what deferring them saves on each wire: a request as it is sent, before
and after a search."""

import asyncio
from collections.abc import Callable

from toolglot import Agent, Text, ToolCall, ToolDefinition
from toolglot.engine.simulated import SimulatedTransport
from toolglot.engine.transport import HttpRequest, HttpResponse
from toolglot.simulator.core import Script, Simulator
from toolglot.tools.tool import Tool, tool_from_definition
from toolglot.values.messages import Reply

# service: thing, what it is, its fields
_THINGS = """
github: issue | an issue of a repository | repository, title, body, labels
github: pull_request | a pull request that merges a branch | repository, branch, title, reviewers
github: release | a published release with its notes | repository, version_tag, notes
github: workflow_run | a run of a continuous integration workflow | repository, workflow, branch
jira: sprint | a sprint of an agile board | board, goal, start_date, end_date
jira: epic | an epic that groups stories | project, summary, due_date
slack: channel | a chat channel of the workspace | channel_name, topic, is_private
slack: reminder | a reminder for a colleague | recipient, text, remind_at
gmail: draft | an unsent e-mail | recipients, subject, body
gmail: label | a label that sorts e-mails | label_name, color
calendar: event | an appointment with its guests | title, start_time, end_time, guests
calendar: room_booking | a reserved meeting room | room, start_time, end_time
drive: document | a text document in the cloud drive | title, content, folder
drive: permission | who may open a shared file | file, email, role
notion: page | a page of the wiki | parent_page, title, markdown
notion: database_row | a row of a wiki database | database, properties
crm: contact | a person at a customer | full_name, email, phone, company
crm: deal | a sales opportunity with its stage | amount, stage, close_date, company
crm: company | a company that we sell to | company_name, industry, website
billing: invoice | an invoice that a customer has to pay | customer, amount, currency, due_date
billing: refund | money given back to a customer | payment, amount, reason
billing: subscription | a recurring plan of a customer | customer, plan, billing_cycle
billing: coupon | a discount code | code, percent_off, expires_at
support: ticket | a support request of a customer | requester, subject, priority, status
support: macro | a canned answer for agents | title, reply_text
hr: employee | an employee record | full_name, department, start_date, salary
hr: leave_request | a request for holiday or sick leave | employee, first_day, last_day, kind
hr: job_posting | an open position on the careers page | job_title, location, description
cloud: virtual_machine | a server in the data center | region, machine_type, image
cloud: bucket | an object storage bucket | bucket_name, region, is_public
cloud: firewall_rule | a network rule that allows or blocks traffic | port, protocol, source_range
cloud: dns_record | a DNS entry of a domain | domain, record_type, value, ttl
kubernetes: deployment | a workload with its replicas | cluster, container_image, replicas
kubernetes: secret | a password or key for workloads | cluster, secret_name, value
monitoring: alert | a rule that notifies the on-call engineer | metric, threshold, channel
monitoring: dashboard | charts of metrics on one screen | title, panels
monitoring: incident | an outage that is being handled | severity, summary, commander
warehouse: shipment | a parcel on its way | order, carrier, tracking_number
warehouse: stock_item | how much of a product is on the shelf | sku, quantity, location
shop: product | an article of the online shop | product_name, price, sku
shop: order | what a shopper has bought | shopper, items, shipping_address
shop: review | stars and a comment on a product | product, stars, comment
travel: flight_booking | a seat on a flight | origin, destination, departure_date, passenger
travel: hotel_reservation | a room in a hotel | city, check_in, check_out, guests
finance: expense_report | costs that an employee wants back | employee, amount, category, receipt
finance: bank_transfer | money sent to another account | iban, amount, reference
finance: budget | what a department may spend | department, fiscal_year, amount
marketing: newsletter | a mailing to all subscribers | subject, html, audience
marketing: landing_page | a web page of a campaign | campaign, headline, html
analytics: report | a saved report about visitors | metrics, dimensions, date_range
"""
_VERBS = {
    "create": "Create {}.",
    "get": "Get {} by its id.",
    "update": "Update {}: only the fields that are passed are changed.",
    "delete": "Delete {} for good.",
    "list": "List, newest first, page by page: {}.",
    "search": "Search by text and filters for {}.",
}


def many_tools() -> list[Tool]:
    """Return the 300 tools; each returns its own name and what it was called with."""
    tools: list[Tool] = []
    for line in _THINGS.strip().splitlines():
        service, thing, meaning, fields = (part.strip() for part in line.replace(":", "|", 1).split("|"))
        texts = {
            name.strip(): f"The {name.strip().replace('_', ' ')} of the {thing.replace('_', ' ')}."
            for name in fields.split(",")
        }
        extra = {
            "get": {"id": f"The id of the {thing.replace('_', ' ')}."},
            "delete": {"id": f"The id of the {thing.replace('_', ' ')}."},
            "list": {
                "page": "The page, from 1 (default 1).",
                "page_size": "Entries per page, 1 to 100 (default 20).",
            },
            "search": {"query": "Words to look for.", "page": "The page, from 1 (default 1)."},
        }
        for verb, sentence in _VERBS.items():
            shown = extra.get(verb, texts if verb == "create" else {"id": "What to change.", **texts})
            schema = {
                "type": "object",
                "properties": {name: {"type": "string", "description": text} for name, text in shown.items()},
                "required": [next(iter(shown))],
                "additionalProperties": False,
            }
            name = f"{service}_{verb}_{thing}"
            tools.append(
                tool_from_definition(
                    ToolDefinition(name, sentence.format(meaning), schema), _answer(name), effects="read"
                )
            )
    return tools


def _answer(name: str) -> Callable[..., str]:
    def answer(**arguments: str) -> str:
        return f"{name} {sorted(arguments.items())}"

    return answer


class _Recorder:
    """The simulator, which searches, calls what it has found and answers; it keeps the bodies."""

    def __init__(self) -> None:
        calls = [
            ToolCall("c1", "search_tools", {"query": "create a github issue"}),
            ToolCall("c2", "github_create_issue", {"repository": "a/b", "title": "Broken"}),
        ]
        script = Script(
            [*(Reply((call,), "tools") for call in calls), *(Reply((Text("done"),)) for _ in range(2))]
        )
        self._inner, self.bodies = SimulatedTransport(Simulator(script)), list[bytes]()

    async def send(self, request: HttpRequest) -> HttpResponse:
        self.bodies.append(request.body)
        return await self._inner.send(request)


async def measure(provider: str) -> tuple[list[int], list[int]]:
    """Return tokens of tools and bytes of requests: all tools shown; deferred; after a search has loaded five
    of them.
    """
    tokens, sizes = list[int](), list[int]()
    for defer in (False, True):
        recorder, tools = _Recorder(), many_tools()
        agent = Agent(f"simulator:{provider}", tools=tools, defer=defer, transport=recorder)
        tokens.append((await agent.context_usage()).parts["tools"])
        await agent.run("Report the bug.")
        sizes.append(len(recorder.bodies[0]))
        if defer:  # a new agent, whose estimate nothing has corrected yet
            after = Agent(f"simulator:{provider}", tools=tools, defer=True, conversation=agent.conversation)
            tokens.append((await after.context_usage()).parts["tools"])
            sizes.append(len(recorder.bodies[1]))
    return tokens, sizes


def main() -> None:
    """Print one line per wire."""
    print(
        "300 tools, estimated tokens of their definitions and bytes of a request: shown -> deferred -> after "
        "a search"
    )
    for provider in ("openai-chat", "openai-responses", "anthropic", "gemini", "ollama"):
        tokens, sizes = asyncio.run(measure(provider))
        shown = [" -> ".join(f"{value:,}" for value in values) for values in (tokens, sizes)]
        print(
            f"{provider:18}{shown[0]:>24} tokens ({1 - tokens[2] / tokens[0]:.0%} saved){shown[1]:>32} bytes"
        )


if __name__ == "__main__":
    main()
