/** The idempotency key in force: the caller's, else a fresh one; every answer to a POST carries it, an error too. */
import type { RequestHandler, Response } from 'express';
import { postHeaders } from '../contracts/api.ts';
import { freshKey } from '../scheduler/identity.ts';

export interface KeyInForce {
  key: string;
  /** Whether it was made for this request, and so cannot have been used before. */
  keyIsFresh: boolean;
}

const keys = new WeakMap<Response, KeyInForce>();

export const keyInForce: RequestHandler = (request, response, next) => {
  if (request.method === 'POST') {
    const given = postHeaders.parse({ 'Idempotency-Key': request.get('Idempotency-Key') })['Idempotency-Key'];
    const inForce = given === undefined ? { key: freshKey(), keyIsFresh: true } : { key: given, keyIsFresh: false };
    keys.set(response, inForce);
    response.setHeader('Idempotency-Key', inForce.key);
  }
  next();
};

export function keyOf(response: Response): KeyInForce {
  const key = keys.get(response);
  if (key === undefined) throw new Error('a POST without a key');
  return key;
}

/** Says that the answer is the one of an earlier request. */
export function markReplayed(response: Response): void {
  response.setHeader('Idempotent-Replayed', 'true');
}
