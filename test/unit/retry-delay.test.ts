import { fc } from '@fast-check/vitest';
import { describe, expect, test } from 'vitest';
import { retryDelayMs } from '../../activities/retry-delay.ts';

const policy = { initialSeconds: 1, factor: 2, maximumSeconds: 300 };
const longest = { random: () => 1 };
const shortest = { random: () => 0 };
const share = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

describe('retryDelayMs', () => {
  test('grows by the factor until the maximum', () => {
    const delays = [1, 2, 3, 9, 10, 12].map((attempt) => retryDelayMs(policy, attempt, longest));
    expect(delays).toEqual([1000, 2000, 4000, 256_000, 300_000, 300_000]);
  });

  test('is shortened by jitter, by half at most', () => {
    expect(retryDelayMs(policy, 3, shortest)).toBe(2000);
    expect(retryDelayMs(policy, 12, shortest)).toBe(150_000);
  });

  test.each([1100, Number.MAX_SAFE_INTEGER])('is finite for attempt %d', (attempt) => {
    expect(retryDelayMs(policy, attempt, longest)).toBe(300_000);
  });

  test('a Retry-After raises it and never shortens it', () => {
    expect(retryDelayMs(policy, 1, { ...shortest, retryAfterSeconds: 30 })).toBe(30_000);
    expect(retryDelayMs(policy, 7, { ...longest, retryAfterSeconds: 30 })).toBe(64_000);
  });

  test('a Retry-After does not lift it above the maximum', () => {
    expect(retryDelayMs(policy, 1, { ...shortest, retryAfterSeconds: 86_400 })).toBe(300_000);
  });

  test('the same Retry-After is spread over different moments', () => {
    expect(retryDelayMs(policy, 1, { ...longest, retryAfterSeconds: 40 })).toBe(50_000);
  });

  test('is a whole number of milliseconds, at least 1 and at most the maximum', () => {
    const given = fc.record({
      initialSeconds: fc.double({ min: 0.1, max: 3600, noNaN: true }),
      factor: fc.double({ min: 1, max: 10, noNaN: true }),
      maximumSeconds: fc.double({ min: 0.1, max: 3600, noNaN: true }),
      attempt: fc.integer({ min: 1, max: 1_000_000 }),
      share,
      retryAfterSeconds: fc.option(fc.integer({ min: 0, max: 86_400 }), { nil: undefined }),
    });
    fc.assert(
      fc.property(given, (drawn) => {
        const delay = retryDelayMs(drawn, drawn.attempt, { random: () => drawn.share, ...drawn });
        expect(Number.isSafeInteger(delay)).toBe(true);
        expect(delay).toBeGreaterThanOrEqual(1);
        expect(delay).toBeLessThanOrEqual(Math.round(drawn.maximumSeconds * 1000));
      }),
    );
  });

  test('never shrinks from one attempt to the next', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 100 }), share, (attempt, drawn) => {
        const random = (): number => drawn;
        const delay = retryDelayMs(policy, attempt, { random });
        expect(retryDelayMs(policy, attempt + 1, { random })).toBeGreaterThanOrEqual(delay);
      }),
    );
  });
});
