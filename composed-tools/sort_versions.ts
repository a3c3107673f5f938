// /// tool
// name = "sort_versions"
// ///
// /// examples
// {"inputs": {"versions": ["1.10.0", "v1.2.0", "1.10.0-rc.1", "1.10.0-rc.10"]}, "result": {"sorted": ["v1.2.0", "1.10.0-rc.1", "1.10.0-rc.10", "1.10.0"], "newest": "1.10.0", "skipped": []}}
// {"inputs": {"versions": ["2.0.0-beta", "latest", "1.9.9"], "stable": true, "order": "newest"}, "result": {"sorted": ["1.9.9"], "newest": "1.9.9", "skipped": ["2.0.0-beta", "latest"]}}
// {"inputs": {"versions": []}, "result": {"sorted": [], "newest": null, "skipped": []}}
// ///
type Order = "oldest" | "newest";

interface Sorted {
  sorted: string[];
  newest: string | null; // of those that are sorted
  skipped: string[]; // what is no version, or not stable where that is asked for
}

class Version {
  readonly numbers: number[];
  readonly labels: string[];

  private constructor(readonly text: string, numbers: string, labels: string | undefined) {
    this.numbers = numbers.split(".").map(Number);
    this.labels = labels === undefined ? [] : labels.split(".");
  }

  static read(text: string): Version | null {
    const found = /^v?(\d+(?:\.\d+){0,3})(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?$/.exec(text.trim());
    return found === null ? null : new Version(text, found[1]!, found[2]);
  }

  compare(other: Version): number {
    for (let at = 0; at < Math.max(this.numbers.length, other.numbers.length); at++) {
      const apart = (this.numbers[at] ?? 0) - (other.numbers[at] ?? 0);
      if (apart !== 0) return apart;
    }
    if (this.labels.length === 0 || other.labels.length === 0) return other.labels.length - this.labels.length;
    for (let at = 0; at < Math.max(this.labels.length, other.labels.length); at++) {
      const apart = compareLabels(this.labels[at], other.labels[at]);
      if (apart !== 0) return apart;
    }
    return 0;
  }
}

function compareLabels(one: string | undefined, other: string | undefined): number {
  if (one === undefined || other === undefined) return one === other ? 0 : one === undefined ? -1 : 1;
  const numbers = [one, other].map((label) => (/^\d+$/.test(label) ? Number(label) : null)) as [number | null, number | null];
  if (numbers[0] !== null && numbers[1] !== null) return numbers[0] - numbers[1];
  if (numbers[0] !== null || numbers[1] !== null) return numbers[0] !== null ? -1 : 1;
  return one < other ? -1 : one > other ? 1 : 0;
}

/**
 * Sort version numbers by the rules of semantic versioning, and say which one is the newest.
 *
 * @param versions - Versions such as 1.2.3, v2.0 or 1.0.0-rc.1.
 * @param order - Which one comes first.
 * @param stable - Whether to leave out pre-releases.
 */
export function sortVersions(versions: string[], order: Order = "oldest", stable: boolean = false): Sorted {
  const skipped: string[] = [];
  const found: Version[] = [];
  for (const text of versions) {
    const version = Version.read(text);
    if (version === null || (stable && version.labels.length > 0)) skipped.push(text);
    else found.push(version);
  }
  const sorted = found.toSorted((a, b) => a.compare(b));
  const newest = sorted.at(-1)?.text ?? null;
  return { sorted: (order === "newest" ? sorted.toReversed() : sorted).map((version) => version.text), newest, skipped };
}
