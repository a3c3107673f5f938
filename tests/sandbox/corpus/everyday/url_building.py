# expect: [["https://example.org/list?page=1&size=10&sort=asc", "https://example.org/list?page=2&size=10&sort=asc", "https://example.org/list?page=3&size=10&sort=asc"], ["example.org", 8443, "/a/b.html", "top"], {"q": ["x y", "z"]}, "a%20b%2F%C3%A7", "~foo", "https://example.org/c?d"]
from urllib.parse import parse_qs, parse_qsl, quote, unquote, urlencode, urljoin, urlsplit, urlunsplit


def with_query(url, **params):
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query)) | {key: str(value) for key, value in params.items() if value is not None}
    return urlunsplit(parts._replace(query=urlencode(sorted(query.items()))))


def paginate(base, total, size):
    pages = -(-total // size)
    return [with_query(base, page=page, size=size) for page in range(1, pages + 1)]


parts = urlsplit("https://user@example.org:8443/a/b.html?q=x+y&q=z#top")
[
    paginate("https://example.org/list?sort=asc", 25, 10),
    [parts.hostname, parts.port, parts.path, parts.fragment],
    parse_qs(parts.query),
    quote("a b/ç", safe=""),
    unquote("%7Efoo"),
    urljoin("https://example.org/a/b", "../c?d"),
]
