# expect: ["192.168.10.1", 6, ["192.168.10.2", "192.168.10.3"], true, "2001:0db8:0000:0000:0000:0000:0000:0001", 5, true, true, true, "255.255.255.248"]
import ipaddress
import secrets
import uuid

network = ipaddress.ip_network("192.168.10.0/29")
hosts = [str(host) for host in network.hosts()]
named = uuid.uuid5(uuid.NAMESPACE_DNS, "example.org")
token = secrets.token_hex(8)


def allocate(network, taken):
    for host in network.hosts():
        if host not in taken:
            taken.add(host)
            yield str(host)


taken = {ipaddress.ip_address("192.168.10.1")}
lease = allocate(network, taken)
v6 = ipaddress.IPv6Address("2001:db8::1")
[
    hosts[0],
    len(hosts),
    [next(lease), next(lease)],
    ipaddress.ip_address("10.1.2.3").is_private,
    v6.exploded,
    named.version,
    str(named)[:8] == named.hex[:8],
    len(token) == 16 and int(token, 16) >= 0,
    uuid.uuid4() != uuid.uuid4(),
    network.netmask,
]
