"""The search over tools: what is found, in which order, and that nothing breaks it."""

from typing import Any

import pytest
from bench.many_tools import many_tools
from hypothesis import given
from hypothesis import strategies as st

from toolglot import ToolDefinition
from toolglot.tools.search import ToolIndex, search_tools_tool, split_words
from toolglot.tools.tool import Tool

# What a model would type, and the tool that it needs; written by hand. A second query is what it would try
# next.
QUERIES = [
    ("create a GitHub issue", "github_create_issue"),
    ("file a bug report in the repository", "github_create_issue"),
    ("open pull request", "github_create_pull_request"),
    ("find pull requests by reviewer", "github_search_pull_request"),
    ("publish release notes", "github_create_release"),
    ("continuous integration runs", "github_list_workflow_run"),
    ("list sprints of the board", "jira_list_sprint"),
    ("change the goal of the sprint", "jira_update_sprint"),
    ("group stories into an epic", "jira_create_epic"),
    ("slack new channel", "slack_create_channel"),
    ("remind a colleague", "slack_create_reminder"),
    ("draft an e-mail", "gmail_create_draft"),
    ("gmail labels", "gmail_list_label"),
    ("schedule a meeting with guests", "calendar_create_event"),
    ("cancel an appointment", "calendar_delete_event"),
    ("reserve a meeting room", "calendar_create_room_booking"),
    ("write a document in the drive", "drive_create_document"),
    ("who may open a shared file", "drive_get_permission"),
    ("share file with someone", "drive_create_permission"),
    ("edit a wiki page", "notion_update_page"),
    ("insert row into wiki database", "notion_create_database_row"),
    ("look up a person at a customer", "crm_search_contact"),
    ("move a deal to another stage", "crm_update_deal"),
    ("sales opportunities", "crm_list_deal"),
    ("bill a customer", "billing_create_invoice"),
    ("unpaid invoices", "billing_list_invoice"),
    ("give money back", "billing_create_refund"),
    ("cancel a subscription plan", "billing_delete_subscription"),
    ("discount code", "billing_create_coupon"),
    ("customer support requests with high priority", "support_search_ticket"),
    ("canned answers", "support_list_macro"),
    ("employee record salary", "hr_update_employee"),
    ("ask for holiday", "hr_create_leave_request"),
    ("advertise an open position", "hr_create_job_posting"),
    ("start a server in a region", "cloud_create_virtual_machine"),
    ("object storage", "cloud_create_bucket"),
    ("block traffic on a port", "cloud_create_firewall_rule"),
    ("point the domain to a new address", "cloud_update_dns_record"),
    ("scale replicas", "kubernetes_update_deployment"),
    ("store a password for the cluster", "kubernetes_create_secret"),
    ("notify on-call when a metric is too high", "monitoring_create_alert"),
    ("charts of metrics", "monitoring_list_dashboard"),
    ("report an outage", "monitoring_create_incident"),
    ("track a parcel", "warehouse_get_shipment"),
    ("how many are on the shelf", "warehouse_get_stock_item"),
    ("product reviews with stars", "shop_search_review"),
    ("book a flight", "travel_create_flight_booking"),
    ("hotel room in a city", "travel_create_hotel_reservation"),
    ("transfer money to an IBAN", "finance_create_bank_transfer"),
    ("mailing to all subscribers", "marketing_create_newsletter"),
]


@pytest.fixture(scope="module")
def index() -> ToolIndex:
    return ToolIndex(tool.definition for tool in many_tools())


def names(tools: list[ToolDefinition]) -> list[str]:
    return [tool.name for tool in tools]


def search(tool: Tool, query: str, **arguments: Any) -> tuple[str, list[str], list[str]]:
    """The text, what was loaded, and what else was named."""
    output = tool(query=query, **arguments)
    text = output.content if isinstance(output.content, str) else output.content[0].text
    return text, output.data["loaded"], output.data["others"]


def test_300_tools_are_found_by_50_queries_in_at_most_two_calls() -> None:
    finder = search_tools_tool(tool.definition for tool in many_tools())
    assert len(QUERIES) == len({query for query, _ in QUERIES}) == 50
    calls: list[int] = []
    for query, wanted in QUERIES:
        text, loaded, others = search(finder, query)
        calls.append(1 if wanted in loaded else 2)
        if wanted not in loaded:  # the model reads its name in the result, and loads it
            assert wanted in others, (query, wanted, loaded, others)
            assert wanted in text
            assert search(finder, f"select:{wanted}")[1] == [wanted]
    assert calls.count(1) >= 44, "most are found at once"


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("github_create_issue", "github_create_issue"),
        ("githubCreateIssue", "github_create_issue"),
        ("Github.Create-Issue", "github_create_issue"),
        ("github create issue", "github_create_issue"),
        ("crm_get", "crm_get_contact"),
        ("+kubernetes delete", "kubernetes_delete_deployment"),
        ("invoices", "billing_create_invoice"),
    ],
)
def test_names_come_first(index: ToolIndex, query: str, first: str) -> None:
    assert index.search(query)[0].name == first


def test_names_select_exactly_these_tools(index: ToolIndex) -> None:
    wanted = ["crm_get_deal", "hr_list_employee"]
    assert names(index.search("select:crm_get_deal,hr_list_employee")) == wanted
    assert names(index.search("crm_get_deal, hr_list_employee")) == wanted
    assert names(index.search("select:crm_get_deal,no_such_tool")) == wanted[:1]
    many = "select:" + ",".join(tool.name for tool in index.tools[:12])
    assert len(search(search_tools_tool(index.tools), many)[1]) == 12
    assert {tool.name.split("_")[0] for tool in index.search("+crm get", 20)} == {"crm"}


def test_namespaces_tags_and_other_scripts_are_found() -> None:
    index = ToolIndex(
        [
            ToolDefinition("find", "Looks.", namespace="crm"),
            ToolDefinition("find", "Looks.", namespace="wiki", tags={"encyclopedia"}),
            ToolDefinition("发送邮件", "发送电子邮件给客户"),
            ToolDefinition("gruesse", "Verschickt Grüße an Straßenbahnfahrer."),
        ]
    )
    assert index.search("crm.find")[0].qualified_name == "crm.find"
    assert {tool.qualified_name for tool in index.search("find")} == {"crm.find", "wiki.find"}
    assert index.search("encyclopedia")[0].qualified_name == "wiki.find"
    assert index.search("邮件")[0].name == "发送邮件"
    assert index.search("grüße")[0].name == "gruesse"


def test_nothing_found_says_what_there_is() -> None:
    text, loaded, others = search(
        search_tools_tool(tool.definition for tool in many_tools()), "quantum chromodynamics"
    )
    assert (loaded, others) == ([], [])
    assert "No tool matches 'quantum chromodynamics'" in text
    assert "300 tools can be found: github (24), billing (24)," in text
    assert search(search_tools_tool(()), "anything")[1] == []


def test_the_description_stays_within_what_providers_accept() -> None:
    for count in (1, 12, 300, 5000):
        definitions = [ToolDefinition(f"tool{number}_{'x' * 40}", "Does it.") for number in range(count)]
        assert len(search_tools_tool(definitions).definition.description) <= 1024


@given(
    st.text(max_size=60),
    st.integers(-5, 100),
    st.lists(st.text(min_size=1, max_size=20), max_size=5, unique=True),
)
def test_any_query_and_any_names_are_harmless(query: str, limit: int, texts: list[str]) -> None:
    index = ToolIndex(
        ToolDefinition(text, text, {"properties": {text: {"description": 5}, "x": None}}) for text in texts
    )
    assert len(index.search(query, max(0, limit))) <= len(texts)
    for tool in index.tools:
        if split_words(tool.name):
            assert tool in index.search(tool.name, len(texts))
    search(search_tools_tool(index.tools), query, limit=limit)
