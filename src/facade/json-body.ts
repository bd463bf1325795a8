/**
 * Bodies: JSON that reaches the Task unchanged, or 400. `JSON.parse` alone would change some of it without a word.
 */
import express, { type Request, type RequestHandler } from 'express';
import { HoldfastError } from '../contracts/errors.ts';
import { LIMITS } from '../contracts/limits.ts';

/** Reads a body of the right type, up to the limit. Compressed ones are not taken: their size would be a guess. */
export const readBody: RequestHandler[] = [
  (request, _response, next) => {
    // The parser would read the whole of it before it refused.
    if (Number(request.headers['content-length']) > LIMITS.requestBytesMax)
      throw new HoldfastError('payload-too-large');
    next();
  },
  express.raw({ type: 'application/json', limit: LIMITS.requestBytesMax, inflate: false }),
  (request, _response, next) => {
    const hasBody = request.headers['transfer-encoding'] !== undefined || Number(request.headers['content-length']) > 0;
    if (hasBody && !Buffer.isBuffer(request.body)) throw new HoldfastError('unsupported-media-type');
    next();
  },
];

/** The request's JSON; without a body, an empty object. */
export function jsonOf(request: Request): unknown {
  const body: unknown = request.body;
  if (!Buffer.isBuffer(body) || body.length === 0) return {};
  const value = parse(body);
  check(value);
  return value;
}

function parse(body: Buffer): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body));
  } catch (error) {
    throw new HoldfastError('invalid-json', 'the body is not JSON in UTF-8', { cause: error });
  }
}

/** Refuses what would not come back as it was sent. Level by level: a recursion would fail on deep documents. */
function check(root: unknown): void {
  let level: unknown[] = [root];
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth > LIMITS.jsonDepthMax)
      throw new HoldfastError('invalid-json', `the body is nested deeper than ${LIMITS.jsonDepthMax} levels`);
    const next: unknown[] = [];
    for (const value of level) {
      if (typeof value === 'number' && !isKeptNumber(value)) {
        throw new HoldfastError('invalid-json', 'the body has a number that would lose precision; send it as a string');
      }
      if (typeof value !== 'object' || value === null) continue;
      if (Object.hasOwn(value, '__proto__')) throw new HoldfastError('invalid-json', 'the body has a key __proto__');
      for (const part of Object.values(value) as unknown[]) next.push(part);
    }
    level = next;
  }
}

function isKeptNumber(value: number): boolean {
  return Number.isFinite(value) && (!Number.isInteger(value) || Number.isSafeInteger(value));
}
