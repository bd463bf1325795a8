/** Few numbers that say enough of many. */

/** The value that the given share of all does not exceed (nearest rank); NaN of none. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((one, other) => one - other);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? NaN;
}

export interface Spread {
  median: number;
  mean: number;
  min: number;
  max: number;
}

/** The median is the mean of the middle two where they are even in number. NaN of none. */
export function spreadOf(values: readonly number[]): Spread {
  const sorted = values.toSorted((one, other) => one - other);
  const half = sorted.length / 2;
  const middle = [sorted[Math.ceil(half) - 1], sorted[Math.floor(half)]];
  return {
    median: ((middle[0] ?? NaN) + (middle[1] ?? NaN)) / 2,
    mean: sumOf(values) / values.length,
    min: sorted[0] ?? NaN,
    max: sorted.at(-1) ?? NaN,
  };
}

/** In the order in which the keys are first met. */
export function groupedBy<Key, Value>(values: readonly Value[], keyOf: (value: Value) => Key): Map<Key, Value[]> {
  const groups = new Map<Key, Value[]>();
  for (const value of values) {
    const key = keyOf(value);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [value]);
    else group.push(value);
  }
  return groups;
}

export function sumOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}
