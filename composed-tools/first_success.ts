// /// tool
// name = "first_success"
// requires = ["*"]
// ///
// /// examples
// {
//  "inputs": {"sources": ["cache.get", "store.get"], "given": {"id": 7}},
//  "result": {
//   "source": "store.get",
//   "result": {"name": "Ann"},
//   "failed": [{"source": "cache.get", "error": "cache.get: not there"}]
//  },
//  "calls": [
//   {"tool": "cache.get", "arguments": {"id": 7}, "error": "not there"},
//   {"tool": "store.get", "arguments": {"id": 7}, "result": {"name": "Ann"}}
//  ]
// }
// {
//  "inputs": {"sources": ["a.broken", "a.other"], "together": true},
//  "result": {"source": "a.other", "result": 1, "failed": [{"source": "a.broken", "error": "a.broken: busy"}]},
//  "calls": [{"tool": "a.broken", "error": "busy"}, {"tool": "a.other", "result": 1}]
// }
// {"inputs": {"sources": []}, "error": "name at least one tool"}
// {"inputs": {"sources": ["a.b"]}, "error": "none of them answered", "calls": [{"tool": "a.b", "error": "down"}]}
// ///
interface Failure {
  source: string;
  error: string;
}
interface Answer {
  source: string;
  result: unknown;
  failed: Failure[];
}

/**
 * Ask several tools the same thing, and take the first answer that is no failure.
 *
 * @param sources - The full names of the tools, the preferred one first.
 * @param given - The arguments, the same for all of them.
 * @param together - Ask all of them at once and take the preferred one that answers, instead of one after the other.
 */
export async function firstSuccess(
  sources: string[],
  given: Record<string, unknown> = {},
  together: boolean = false,
): Promise<Answer> {
  if (sources.length === 0) throw new RangeError("name at least one tool");
  const failed: Failure[] = [];
  const ask = async (source: string): Promise<{ result: unknown } | null> => {
    try {
      return { result: await tools.call(source, given) };
    } catch (error) {
      failed.push({ source, error: (error as Error).message });
      return null;
    }
  };
  const asked = together ? await Promise.all(sources.map(ask)) : [];
  for (const [at, source] of sources.entries()) {
    const answer = together ? asked[at]! : await ask(source);
    if (answer) return { source, result: answer.result, failed };
  }
  throw new Error(`none of them answered: ${failed.map((one) => one.error).join("; ")}`);
}
