"""Which addresses are public, which spellings are addresses at all, and what the user can allow."""

import asyncio
import os
import shutil
import subprocess
import sys
from ipaddress import ip_address

import pytest

from toolglot.confine.web_address import AddressGuard, Site, is_public, parse_site
from toolglot.errors import ToolError, UsageError

PUBLIC = [
    *(
        "1.1.1.1",
        "8.8.8.8",
        "93.184.216.34",
        "172.32.0.1",
        "100.128.0.1",
        "2606:4700::1111",
        "::ffff:8.8.8.8",
    ),
    "64:ff9b::808:808",
]
CLOSED = [
    *(
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "100.64.0.1",
        "100.100.100.200",
        "127.0.0.1",
        "127.255.255.254",
        "168.63.129.16",
    ),
    *(
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.192",
        "192.0.2.1",
        "192.168.1.1",
        "198.18.0.1",
    ),
    *("198.51.100.1", "203.0.113.9", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255"),
    *(
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:169.254.169.254",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
    ),
    *(
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fec0::1",
        "ff02::1",
        "100::1",
    ),
    *("2001::1", "2001:db8::1", "2002:7f00:1::", "2002:a00:1::", "3fff::1", "5f00::1"),
]


@pytest.mark.parametrize(
    ("address", "expected"), [*((text, True) for text in PUBLIC), *((text, False) for text in CLOSED)]
)
def test_public_addresses(address: str, expected: bool) -> None:
    assert is_public(ip_address(address)) is expected


NOT_OPENED = [
    *(
        "file:///etc/passwd",
        "FILE:///etc/passwd",
        "data:text/html,hi",
        "view-source:http://a.test/",
        "ftp://a.test/",
    ),
    *(
        "javascript:alert(1)",
        "about:blank",
        "chrome://settings",
        "blob:http://a.test/1",
        "ws://a.test/",
        "gopher://a.test:70/",
    ),
    *("http://user@a.test/", "http://user:word@a.test/", "http://a.test@127.0.0.1/"),
]
MALFORMED = [
    *(
        "",
        "a.test",
        "//a.test/",
        "http:",
        "http:/a.test",
        "http:a.test",
        "http://",
        "http:///x",
        "http://:80/",
    ),
    *(
        "http://a.test:0/",
        "http://a.test:99999/",
        "http://a.test:x/",
        "http://[::1/",
        "http://a b.test/",
        "http://a.test/\n",
    ),
    *(
        "\thttp://a.test/",
        "http://a.test\\@b.test/",
        "http:\\\\a.test",
        "http://a.test/\x00",
        "http://a.test/\ud800",
    ),
    "http://a.test/" + "a" * 8000,
]


@pytest.mark.parametrize(
    ("url", "kind"),
    [*((url, "not_allowed") for url in NOT_OPENED), *((url, "validation") for url in MALFORMED)],
)
def test_what_is_not_the_url_of_a_page_is_refused_in_one_sentence(url: str, kind: str) -> None:
    with pytest.raises(ToolError) as raised:
        parse_site(url)
    assert raised.value.kind == kind
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 300


def test_a_site_has_scheme_host_and_port() -> None:
    urls = {
        "HTTPS://A.Test./x": "a.test",
        "http://a.test:8080": "a.test:8080",
        "http://[::1]:81/": "[::1]:81",
    }
    sites = [parse_site(url) for url in urls]
    assert sites == [Site("https", "a.test", 443), Site("http", "a.test", 8080), Site("http", "::1", 81)]
    assert list(map(str, sites)) == list(urls.values())


def resolve_with(
    host: str, port: int = 80, *, allowed: tuple[str, ...] = (), answers: dict[str, list[str]] | None = None
) -> list[str]:
    async def resolve(name: str, port: int) -> list[str]:
        if answers is not None and name in answers:
            return answers[name]
        raise OSError("not known")

    return asyncio.run(AddressGuard(allowed, resolve).resolve_allowed(host, port))


NAMES = {
    "good.test": ["93.184.216.34"],
    "inside.test": ["10.0.0.1"],
    "both.test": ["93.184.216.34", "10.0.0.1"],
    "odd.test": ["x"],
    "scope.test": ["fe80::1%eth0"],
    "six.test": ["::ffff:127.0.0.1"],
    "none.test": [],
}
REFUSED = [
    "inside.test",
    "both.test",
    "odd.test",
    "scope.test",
    "six.test",
    "127.0.0.1",
    "::1",
    "INSIDE.test.",
    "0.0.0.0",
]


@pytest.mark.parametrize("host", REFUSED)
def test_a_name_is_refused_if_any_of_its_addresses_is_not_public(host: str) -> None:
    with pytest.raises(ToolError) as raised:
        resolve_with(host, answers=NAMES)
    assert raised.value.kind == "not_allowed"


@pytest.mark.parametrize("host", ["unknown.test", "none.test", "a" * 300])
def test_an_unknown_name(host: str) -> None:
    with pytest.raises(ToolError, match="does not exist") as raised:
        resolve_with(host, answers=NAMES)
    assert raised.value.kind == "execution"


@pytest.mark.parametrize(
    "host", ["2130706433", "0x7f000001", "0177.0.0.1", "127.1", "0", "localhost", "\uff11\uff12\uff17.0.0.1"]
)
def test_no_spelling_of_loopback_is_accepted(host: str) -> None:
    with pytest.raises(ToolError) as raised:
        asyncio.run(AddressGuard().resolve_allowed(host, 80))
    assert raised.value.kind in ("not_allowed", "execution")  # refused, or no name at all: never an address


def test_public_addresses_are_returned_as_they_were_checked() -> None:
    assert resolve_with("good.test", answers=NAMES) == ["93.184.216.34"]
    assert resolve_with("8.8.8.8") == ["8.8.8.8"]


@pytest.mark.parametrize("port", [22, 25, 6379, 11211])
def test_ports_of_other_protocols_are_refused(port: int) -> None:
    with pytest.raises(ToolError, match="is not a web port"):
        resolve_with("8.8.8.8", port)


ALLOWED = [
    (("inside.test",), "inside.test", 80, True),
    (("inside.test:8080",), "inside.test", 8080, True),
    (("inside.test:8080",), "inside.test", 80, False),
    (("other.test",), "inside.test", 80, False),
    (("10.0.0.1",), "inside.test", 80, True),
    (("10.0.0.0/8",), "inside.test", 80, True),
    (("10.0.0.1:8080",), "inside.test", 8080, True),
    (("10.0.0.1:8080",), "inside.test", 80, False),
    (("10.0.0.2",), "inside.test", 80, False),
    (("127.0.0.1",), "six.test", 80, True),
    (("::1",), "::1", 80, True),
    (("[::1]:81",), "::1", 81, True),
    (("[::1]:81",), "::1", 80, False),
    (("10.0.0.0/8",), "169.254.169.254", 80, False),
]


@pytest.mark.parametrize(("allowed", "host", "port", "opens"), ALLOWED)
def test_the_user_can_allow_hosts_and_networks(
    allowed: tuple[str, ...], host: str, port: int, opens: bool
) -> None:
    if opens:
        assert resolve_with(host, port, allowed=allowed, answers=NAMES)
    else:
        with pytest.raises(ToolError, match="is not a public address"):
            resolve_with(host, port, allowed=allowed, answers=NAMES)


@pytest.mark.parametrize("entry", ["", "http://a.test", "a.test:99999", "a b", "[::1", "a.test/x"])
def test_an_invalid_allow_entry_is_refused(entry: str) -> None:
    with pytest.raises(UsageError, match="allow_private"):
        AddressGuard((entry,))


# In a network of its own: two addresses of this machine, one network with neighbours, and a way to everywhere
# else.
NETWORK = """
ip link set lo up && ip addr add 8.8.4.4/32 dev lo && ip link add v0 type veth peer name v1 && ip addr add 9.9.9.9/20 dev v0 &&
ip addr add 2600:1:2:3::9/64 dev v0 nodad && ip link set v0 up && ip link set v1 up && ip route add default via 9.9.9.254 &&
ip -6 route add default dev v0 && exec "$@"
"""
LOCAL = ("8.8.4.4", "9.9.9.9", "9.9.9.1", "::ffff:9.9.9.1", "2600:1:2:3::9", "2600:1:2:3::1")
REMOTE = ("1.1.1.1", "9.9.8.1", "2600:1:2:4::1")
SCRIPT = """
import asyncio, sys
from toolglot.confine.web_address import AddressGuard
from toolglot.errors import ToolError
guard, opened = AddressGuard(sys.argv[1].split()), []
for address in sys.argv[2:]:
    try:
        opened += asyncio.run(guard.resolve_allowed(address, 80))
    except ToolError as e:
        assert "is in this machine's own network" in str(e)
print(*opened)
"""


@pytest.mark.skipif(not shutil.which("unshare") or not shutil.which("ip"), reason="needs unshare and ip")
@pytest.mark.parametrize("allowed", ["", "9.9.9.0/24"])
def test_the_machines_own_public_addresses_and_its_neighbours_are_refused(allowed: str) -> None:
    namespace = [
        "unshare",
        "--net",
        *(() if os.geteuid() == 0 else ("--map-root-user",)),
        "sh",
        "-c",
        NETWORK,
        "sh",
    ]
    if subprocess.run([*namespace, "true"], capture_output=True, check=False).returncode:
        pytest.skip("networks of one's own are not possible here")
    argv = [*namespace, sys.executable, "-c", SCRIPT, allowed, *LOCAL, *REMOTE]
    opened = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()
    assert opened == [*(("9.9.9.9", "9.9.9.1", "::ffff:909:901") if allowed else ()), *REMOTE]
