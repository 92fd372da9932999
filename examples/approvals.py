"""Ask a person before a tool changes something; here the person is a function."""

from toolglot import Agent, ApprovalRequest, tool


@tool(effects={"write"}, approval=True)
def delete_file(path: str) -> str:
    """Delete a file."""
    return f"deleted {path}"


def approve(request: ApprovalRequest) -> bool:
    """Allow temporary files only."""
    allowed = str(request.arguments["path"]).startswith("tmp/")
    print(f"{request.tool} {request.arguments}: {'yes' if allowed else 'no'}")
    return allowed


agent = Agent("simulator", tools=[delete_file], approve=approve)
result = agent.run_sync("""
call delete_file {"path": "tmp/a"}
call delete_file {"path": "/etc/passwd"}
""")
print([outcome.ran for outcome in result.outcomes])

# Output:
# delete_file {'path': 'tmp/a'}: yes
# delete_file {'path': '/etc/passwd'}: no
# [True, False]
