import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { jsonBytes } from '../../src/contracts/json.ts';

/** The bytes that Node itself would send for this value. */
function bytesSent(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value), 'utf8');
}

/** Any UTF-16 unit on its own: halves of pairs that nothing completes, and control characters. */
const anyUnits = fc.array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 40 }).map((units) => {
  return String.fromCharCode(...units);
});
/** As above, from the edges where the number of bytes changes. */
const anyEdgeUnits = fc
  .array(fc.constantFrom(0, 0x1f, 0x22, 0x5c, 0x7f, 0x80, 0x7ff, 0x800, 0xd800, 0xdbff, 0xdc00, 0xdfff, 0xe000, 0xffff))
  .map((units) => String.fromCharCode(...units));

describe('jsonBytes', () => {
  test.each([
    ['nothing but quotes', '', 2],
    ['ASCII', 'abc', 5],
    ['a control character, six bytes', '\u0000', 8],
    ['a line feed, which has a short escape', '\n', 4],
    ['a quote', '"', 4],
    ['two bytes', '\u00e9', 4],
    ['three bytes', '\u20ac', 5],
    ['a pair, four bytes', '\u{1f600}', 6],
    ['half a pair, escaped', '\ud83d', 8],
    ['halves in the wrong order, each escaped', '\ude00\ud83d', 14],
    ['a key counts as well', { '\u20ac': null }, 12],
    ['a number', -1.5e-7, 7],
    ['null', null, 4],
  ])('%s', (_, value, bytes) => {
    expect(jsonBytes(value)).toBe(bytes);
    expect(bytesSent(value)).toBe(bytes);
  });

  test.each([['undefined', undefined] as const, ['a function', (): void => undefined] as const])(
    '%s has no JSON and no bytes',
    (_, value) => {
      expect(jsonBytes(value)).toBe(0);
    },
  );

  test('is what is sent, for any text', () => {
    fc.assert(
      fc.property(fc.oneof(anyUnits, anyEdgeUnits, fc.string({ unit: 'binary' })), (text) => {
        expect(jsonBytes(text)).toBe(bytesSent(text));
      }),
      { numRuns: 3000 },
    );
  });

  test('is what is sent, for any JSON', () => {
    fc.assert(
      fc.property(fc.jsonValue({ stringUnit: 'binary' }), (value) => {
        expect(jsonBytes(value)).toBe(bytesSent(value));
      }),
      { numRuns: 2000 },
    );
  });

  test('is what is sent, for objects with any keys and parts that JSON leaves out', () => {
    fc.assert(
      fc.property(fc.dictionary(anyEdgeUnits, fc.oneof(anyUnits, fc.constant(undefined), fc.double())), (value) => {
        expect(jsonBytes(value)).toBe(bytesSent(value));
      }),
      { numRuns: 1000 },
    );
  });
});
