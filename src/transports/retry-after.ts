/** Longer than that nobody waits: a round of publication ends within a day. */
const RETRY_AFTER_SECONDS_MAX = 24 * 3600;

/** The one form of a date that HTTP lets senders use. `Date.parse` alone would read `-1` as a year. */
const HTTP_DATE = /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/;

/**
 * Seconds to wait by a `Retry-After` header, from 0 to a day: a number of seconds, or a date, of which one that has
 * passed is 0. Anything else (negative, fractional, no date) counts as not there.
 */
export function parseRetryAfter(header: string | undefined, nowMs: number): number | undefined {
  if (header === undefined) return undefined;
  if (/^\d+$/.test(header)) return Math.min(Number(header), RETRY_AFTER_SECONDS_MAX);
  const dateMs = HTTP_DATE.test(header) ? Date.parse(header) : Number.NaN;
  if (Number.isNaN(dateMs)) return undefined;
  return Math.min(Math.max(0, Math.ceil((dateMs - nowMs) / 1000)), RETRY_AFTER_SECONDS_MAX);
}
