/** `Prefer: wait=N` (RFC 7240): how long a read may wait for something new. */
import type { Request, Response } from 'express';
import type { Wait } from '../scheduler/scheduler.ts';

const WAIT_SECONDS_MAX = 30;

/** The wait that the request asks for, 30 s at most; it ends when the client goes. Says in the answer what it applied. */
export function waitOf(request: Request, response: Response): Wait {
  const asked = /(?:^|,)\s*wait\s*=\s*"?(\d{1,9})"?\s*(?:[;,]|$)/i.exec(request.get('Prefer') ?? '')?.[1];
  const waitSeconds = Math.min(Number(asked ?? 0), WAIT_SECONDS_MAX);
  if (asked !== undefined) response.setHeader('Preference-Applied', `wait=${waitSeconds}`);
  const gone = new AbortController();
  response.once('close', () => gone.abort());
  return { waitMs: waitSeconds * 1000, signal: gone.signal };
}
