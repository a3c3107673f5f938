// /// tool
// name = "match_names"
// language = "javascript"
// ///
// /// examples
// {"inputs": {"names": ["Jon Smith", "Ann-Marie Ö."], "known": ["John Smith", "Anne Marie O", "Bob"]}, "result": [{"name": "Jon Smith", "match": "John Smith", "score": 0.9}, {"name": "Ann-Marie Ö.", "match": "Anne Marie O", "score": 0.917}]}
// {"inputs": {"names": ["xyz"], "known": ["Bob"]}, "result": [{"name": "xyz", "match": null, "score": 0}]}
// {"inputs": {"names": [], "known": []}, "result": []}
// {"inputs": {"names": ["a"], "known": [], "least": 2}, "error": "least is a number from 0 to 1"}
// ///

/**
 * @typedef {Object} Match
 * @property {string} name - As it was given.
 * @property {?string} match - The most similar of the known ones, or null.
 * @property {number} score - How similar they are, from 0 to 1.
 */

/**
 * Find for each name the one that is spelled most similarly, whatever its case, accents and punctuation.
 *
 * @param {object} options
 * @param {string[]} options.names - The names to look up.
 * @param {string[]} options.known - The names that there are.
 * @param {number} [options.least=0.7] - How similar a match is at least, from 0 to 1.
 * @returns {Match[]}
 */
export default function matchNames({ names, known, least = 0.7 }) {
  if (!(least >= 0 && least <= 1)) throw new RangeError("least is a number from 0 to 1");
  const candidates = known.map((name) => ({ name, plain: plain(name) }));
  return names.map((name) => {
    const wanted = plain(name);
    let best = { name, match: null, score: 0 };
    for (const candidate of candidates) {
      const score = similarity(wanted, candidate.plain);
      if (score >= least && score > best.score) best = { name, match: candidate.name, score };
    }
    return { ...best, score: Math.round(best.score * 1000) / 1000 };
  });
}

const plain = (name) => name.normalize("NFD").replace(/\p{Mn}/gu, "").toLowerCase().replace(/[^\p{L}\p{N}]+/gu, " ").trim();

/** 1 less the distance of Levenshtein, as a part of the longer text. */
function similarity(a, b) {
  if (a === b) return 1;
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1));
    row = next;
  }
  return 1 - row[b.length] / Math.max(a.length, b.length);
}
