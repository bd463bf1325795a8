/**
 * A moment in UTC as `2026-01-31T09:00:00.000Z`: always this one form, so that instants compare as strings, read well
 * in Temporal's Web UI, and survive JSON.
 */
export type Instant = string;

/** The instant of milliseconds since the epoch. */
export function instantOf(epochMs: number): Instant {
  return new Date(epochMs).toISOString();
}

/** Milliseconds since the epoch. */
export function epochMsOf(instant: Instant): number {
  return Date.parse(instant);
}

/** The instant this many seconds later. */
export function addSeconds(instant: Instant, seconds: number): Instant {
  return instantOf(epochMsOf(instant) + seconds * 1000);
}
