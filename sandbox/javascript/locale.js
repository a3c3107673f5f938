// What Intl would do, for the one locale there is: numbers, dates and order as in en-US.
const grouped = (digits) => { let text = ""; for (let at = 0; at < digits.length; at++) text += `${at && (digits.length - at) % 3 === 0 ? "," : ""}${digits[at]}`; return text; };
const CURRENCIES = { __proto__: null, USD: "$", EUR: "€", GBP: "£", JPY: "¥", INR: "₹", CNY: "CN¥", KRW: "₩", BRL: "R$", CAD: "CA$", AUD: "A$", MXN: "MX$" };
const localNumber = (value, options) => {
  const { style, currency, useGrouping } = options;
  if (value !== value) return "NaN";
  let number = style === "percent" ? value * 100 : value;
  const least = options.minimumFractionDigits ?? (style === "currency" ? currency === "JPY" || currency === "KRW" ? 0 : 2 : 0);
  const most = options.maximumFractionDigits ?? max(least, style === "currency" ? least : style === "percent" ? 0 : 3);
  let suffix = "";
  if (options.notation === "compact") {
    const size = Math.abs(number), step = size >= 1e12 ? 4 : size >= 1e9 ? 3 : size >= 1e6 ? 2 : size >= 1e3 ? 1 : 0;
    number /= 1000 ** step;
    suffix = ["", "K", "M", "B", "T"][step];
    return `${Number(options.maximumFractionDigits !== undefined ? number.toFixed(options.maximumFractionDigits) : Math.abs(number) < 100 ? number.toPrecision(2) : number.toFixed(0))}${suffix}`;
  }
  const negative = number < 0 || number === 0 && 1 / number < 0;
  let text;
  if (number === Infinity || number === -Infinity) text = "∞";
  else {
    const digits = options.maximumSignificantDigits ? `${Number(Math.abs(number).toPrecision(options.maximumSignificantDigits))}` : Math.abs(number) < 1e21 ? halfExpand(Math.abs(number), most) : bigintText(BigInt(Math.abs(number)));
    let [whole, fraction = ""] = textSplit(digits, ".");
    while (fraction.length > least && fraction.endsWith("0")) fraction = textSlice(fraction, 0, -1);
    while (whole.length < (options.minimumIntegerDigits ?? 1)) whole = `0${whole}`;
    text = `${useGrouping === false ? whole : grouped(whole)}${fraction ? `.${fraction}` : ""}`;
  }
  if (style === "currency") text = options.currencyDisplay === "code" ? `${currency}\u00a0${text}` : `${CURRENCIES[currency] ?? `${currency}\u00a0`}${text}`;
  if (style === "percent") text += "%";
  if (style === "unit" && options.unit) text += ` ${options.unit}`;
  return (negative ? "-" : options.signDisplay === "always" || options.signDisplay === "exceptZero" && number !== 0 ? "+" : "") + text;
};
// toFixed rounds what is stored; en-US rounds what is written: 1.005 is 1.01.
const halfExpand = (value, places) => {
  const fixed = value.toFixed(places), shown = `${value}`;
  if (textIndex(shown, "e") >= 0) return fixed;
  const [whole, fraction = ""] = textSplit(shown, ".");
  if (fraction.length <= places) return fixed;
  let digits = BigInt(whole + textSlice(fraction, 0, places));
  if (textCode(fraction, places) >= 53) digits += 1n;
  const text = `${digits}`.padStart(places + 1, "0");
  return places ? `${textSlice(text, 0, -places)}.${textSlice(text, -places)}` : text;
};
const toLocale = function toLocaleString(_, options = {}) { return localNumber(numberValue(this), options ?? {}); };
hide(Number.prototype, "toLocaleString", toLocale);
hide(BigInt.prototype, "toLocaleString", function toLocaleString() { const text = bigintText(this); return textStarts(text, "-") ? `-${grouped(textSlice(text, 1))}` : grouped(text); });

const MONTHS = "January February March April May June July August September October November December".split(" ");
const DAYS = "Sunday Monday Tuesday Wednesday Thursday Friday Saturday".split(" ");
const two = (value) => value < 10 ? `0${value}` : `${value}`;
const zoneNote = (zone) => { if (zone !== undefined && !["UTC", "GMT", "Etc/UTC"].includes(zone)) throw new NativeRangeError(`there are no time zones but UTC here, and no Intl: ${zone}`); };
// Numeric dates of a few locales, which programs ask for to have that order; all else is as in en-US.
const DAY_FIRST = { __proto__: null, "en-GB": "/", "en-AU": "/", "en-NZ": "/", "de-DE": ".", de: "." }, YEAR_FIRST = { __proto__: null, "en-CA": true, "sv-SE": true, sv: true };
const numericDate = (locale, y, m, d, asked) => {
  if (locale in YEAR_FIRST) return `${y}-${two(m)}-${two(d)}`;
  const mark = DAY_FIRST[locale], padded = (value, given) => mark === "/" || given === "2-digit" ? two(value) : value;
  return `${padded(d, asked.day)}${mark}${padded(m, asked.month)}${mark}${y}`;
};
const localDate = (date, locale, options, dateToo, timeToo) => {
  if (dateTime(date) !== dateTime(date)) return "Invalid Date";
  zoneNote(options.timeZone);
  const at = new NativeDate(dateTime(date));
  const parts = "weekday year month day hour minute second".split(" ");
  let chosen = { ...options };
  if (options.dateStyle || options.timeStyle) {
    const style = options.dateStyle;
    chosen = { hour12: options.hour12 };
    if (style) assign(chosen, { year: style === "short" ? "2-digit" : "numeric", month: style === "short" ? "numeric" : style === "medium" ? "short" : "long", day: "numeric" });
    if (style === "full") chosen.weekday = "long";
    if (options.timeStyle) assign(chosen, { hour: "numeric", minute: "2-digit" }, options.timeStyle === "short" ? {} : { second: "2-digit" });
  } else if (!parts.some((part) => options[part] !== undefined)) {
    if (dateToo) assign(chosen, { year: "numeric", month: "numeric", day: "numeric" });
    if (timeToo) assign(chosen, { hour: "numeric", minute: "2-digit", second: "2-digit" });
  }
  const { weekday, year, month, day, hour, minute, second } = chosen;
  const y = year === "2-digit" ? two(at.getUTCFullYear() % 100) : `${at.getUTCFullYear()}`;
  const d = day === "2-digit" ? two(at.getUTCDate()) : `${at.getUTCDate()}`;
  const w = weekday && (weekday === "long" ? DAYS[at.getUTCDay()] : textSlice(DAYS[at.getUTCDay()], 0, weekday === "narrow" ? 1 : 3));
  let text = "";
  if (month === "long" || month === "short" || month === "narrow") {
    const m = month === "long" ? MONTHS[at.getUTCMonth()] : textSlice(MONTHS[at.getUTCMonth()], 0, month === "narrow" ? 1 : 3);
    text = `${m}${day ? ` ${d}` : ""}${year ? `${day ? "," : ""} ${y}` : ""}`;
  } else if (month && day && year && (locale in DAY_FIRST || locale in YEAR_FIRST)) text = numericDate(locale, y, at.getUTCMonth() + 1, at.getUTCDate(), chosen);
  else text = [month && (month === "2-digit" ? two(at.getUTCMonth() + 1) : at.getUTCMonth() + 1), day && d, year && y].filter((one) => one).join("/");
  if (w) text = text ? `${w}, ${text}` : w;
  if (hour || minute || second) {
    const twelve = chosen.hour12 ?? (chosen.hourCycle === undefined ? !(locale in DAY_FIRST && locale !== "en-AU" && locale !== "en-NZ" || locale in YEAR_FIRST && locale !== "en-CA") : chosen.hourCycle === "h12"), h = at.getUTCHours();
    const shown = twelve ? h % 12 || 12 : h;
    const time = [hour && (hour === "2-digit" || !twelve ? two(shown) : shown), minute && (hour || minute === "2-digit" ? two(at.getUTCMinutes()) : at.getUTCMinutes()), second && (hour || minute ? two(at.getUTCSeconds()) : at.getUTCSeconds())].filter((one) => one !== undefined).join(":");
    text += `${text ? !year && !month && !day ? " " : options.dateStyle === "full" || options.dateStyle === "long" ? " at " : ", " : ""}${time}${hour && twelve ? ` ${h < 12 ? "AM" : "PM"}` : ""}`;
    if (options.timeZoneName) text += " UTC";
  }
  return text;
};
const localeOf = (given) => `${isArray(given) ? given[0] : given}`;
const dateText = uncurry(Date.prototype.toString), dayTime = uncurry(Date.prototype.toTimeString), ZONE = " (Coordinated Universal Time)";
hide(Date.prototype, "toString", function toString() { const text = dateText(this); return text === "Invalid Date" ? text : text + ZONE; });
hide(Date.prototype, "toTimeString", function toTimeString() { const text = dayTime(this); return text === "Invalid Date" ? text : text + ZONE; });
hide(Date.prototype, "toLocaleString", function toLocaleString(locale, options = {}) { return localDate(this, localeOf(locale), options ?? {}, true, true); });
hide(Date.prototype, "toLocaleDateString", function toLocaleDateString(locale, options = {}) { return localDate(this, localeOf(locale), options ?? {}, true, false); });
hide(Date.prototype, "toLocaleTimeString", function toLocaleTimeString(locale, options = {}) { return localDate(this, localeOf(locale), options ?? {}, false, true); });

// Spaces, then punctuation, digits, letters; case and accents only where all else is the same.
const PUNCTUATION = "_-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$";
const normalize = uncurry(String.prototype.normalize), textReplace = uncurry(String.prototype.replace);
const rankOf = (code) => code === 32 || code === 9 || code === 10 || code === 13 ? code : code >= 48 && code <= 57 ? 0x200 + code : code >= 97 && code <= 122 || code > 127 ? 0x300 + code : 0x100 + textIndex(PUNCTUATION, fromCode(code));
const compareTexts = (left, right, options) => {
  const fold = (text) => textLower(textReplace(normalize(text, "NFD"), /[\u0300-\u036f]/g, ""));
  const a = fold(left), b = fold(right);
  if (options.numeric) {
    const parts = (text) => text.match(/\d+|\D+/g) ?? [];
    const one = parts(a), other = parts(b);
    for (let at = 0; at < min(one.length, other.length); at++) {
      const number = regexpExec(/^\d/, one[at]) && regexpExec(/^\d/, other[at]);
      const order = number ? Math.sign(one[at] - other[at]) : ranked(one[at], other[at]);
      if (order) return order;
    }
    if (one.length !== other.length) return one.length < other.length ? -1 : 1;
  }
  const order = ranked(a, b);
  if (order || options.sensitivity === "base") return order;
  const accents = ranked(textLower(normalize(left, "NFD")), textLower(normalize(right, "NFD")));
  if (accents || options.sensitivity === "accent") return accents;
  const plainLeft = normalize(left, "NFC"), plainRight = normalize(right, "NFC");
  for (let at = 0; at < plainLeft.length; at++)
    if (plainLeft[at] !== plainRight[at]) return plainLeft[at] === textLower(plainLeft[at]) ? -1 : 1;
  return 0;
};
const ranked = (a, b) => {
  for (let at = 0; at < min(a.length, b.length); at++) {
    const one = rankOf(textCode(a, at)), other = rankOf(textCode(b, at));
    if (one !== other) return one < other ? -1 : 1;
  }
  return a.length === b.length ? 0 : a.length < b.length ? -1 : 1;
};
hide(String.prototype, "localeCompare", function localeCompare(other, _, options = {}) { return compareTexts(`${this}`, `${other}`, options ?? {}); });
