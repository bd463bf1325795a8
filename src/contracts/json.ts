/** Any JSON value, as it goes through Temporal's JSON converter unchanged. */
export type Json = string | number | boolean | null | Json[] | { [key: string]: Json };

/**
 * The serialized size of a value in bytes: UTF-8 of its JSON, so that a control character counts as the six bytes
 * (`\u0000`) that it takes in a history. Pure, and free of Node's built-ins: workflow code calls it too.
 */
export function jsonBytes(value: unknown): number {
  const text = JSON.stringify(value) as string | undefined;
  return text === undefined ? 0 : utf8Bytes(text);
}

function utf8Bytes(text: string): number {
  let bytes = text.length;
  for (let index = 0; index < text.length; index += 1) {
    const unit = text.charCodeAt(index);
    if (unit < 0x80) continue;
    // A surrogate pair is two units and four bytes; every other unit from U+0800 on is three bytes.
    bytes += unit < 0x800 || (unit >= 0xd800 && unit <= 0xdfff) ? 1 : 2;
  }
  return bytes;
}

/**
 * Whether a value is nested at most this deep; a scalar has depth 0. Level by level, since a recursion, `JSON.stringify`
 * among them, ends in a RangeError on a document that is deep enough.
 */
export function isWithinDepth(value: unknown, depthMax: number): boolean {
  let level = [value];
  for (let depth = 0; depth <= depthMax; depth += 1) {
    level = level.flatMap((each): unknown[] => (typeof each === 'object' && each !== null ? Object.values(each) : []));
    if (level.length === 0) return true;
  }
  return false;
}
