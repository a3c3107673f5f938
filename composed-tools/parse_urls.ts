// /// tool
// name = "parse_urls"
// ///
// /// examples
// {
//  "inputs": {"urls": ["https://user@example.org:8443/a/b.html?q=wasm&tag=x&tag=y#top", "nonsense"]},
//  "result": [
//   {
//    "url": "https://user@example.org:8443/a/b.html?q=wasm&tag=x&tag=y#top",
//    "host": "example.org",
//    "port": 8443,
//    "path": ["a", "b.html"],
//    "query": {"q": ["wasm"], "tag": ["x", "y"]},
//    "fragment": "top",
//    "problem": null
//   },
//   {"url": "nonsense", "host": null, "port": null, "path": [], "query": {}, "fragment": null, "problem": "not a URL"}
//  ]
// }
// {
//  "inputs": {"urls": ["https://example.org/?utm_source=x&q=1"], "drop": "^utm_"},
//  "result": [
//   {
//    "url": "https://example.org/?utm_source=x&q=1",
//    "host": "example.org",
//    "port": null,
//    "path": [],
//    "query": {"q": ["1"]},
//    "fragment": null,
//    "problem": null
//   }
//  ]
// }
// {"inputs": {"urls": []}, "result": []}
// ///

/** The parts of a URL. What is not there is null; one that can't be read has a problem. */
interface Parts {
  url: string;
  host: string | null;
  port: integer | null;
  path: string[];
  query: Record<string, string[]>;
  fragment: string | null;
  problem: string | null;
}
type integer = number;

/**
 * Take URLs apart: host, port, the parts of the path, and the values of each parameter of the query.
 *
 * @param urls - The URLs, each with its scheme.
 * @param drop - A regular expression; parameters of the query whose names it matches are left out.
 */
export function parseUrls(urls: string[], drop?: string): Parts[] {
  const unwanted = drop === undefined ? null : new RegExp(drop);
  return urls.map((url) => parts(url, unwanted));
}

function parts(url: string, unwanted: RegExp | null): Parts {
  let parsed: URL;
  try {
    parsed = new URL(url);
  } catch {
    return { url, host: null, port: null, path: [], query: {}, fragment: null, problem: "not a URL" };
  }
  const query: Record<string, string[]> = {};
  for (const [name, value] of parsed.searchParams) if (!unwanted?.test(name)) (query[name] ??= []).push(value);
  return {
    url,
    host: parsed.hostname,
    port: parsed.port ? Number(parsed.port) : null,
    path: parsed.pathname.split("/").filter(Boolean).map(decodeURIComponent),
    query,
    fragment: parsed.hash ? parsed.hash.slice(1) : null,
    problem: null,
  };
}
