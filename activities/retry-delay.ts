import type { PublishPolicy } from '../src/contracts/workflow.ts';

/** Jitter only shortens, and at most by half: the policy's delays stay upper bounds, and Tasks still spread out. */
const SHORTEST_SHARE = 0.5;
/** What was told to wait is spread over a quarter more: a date in `Retry-After` names one moment to everybody. */
const RETRY_AFTER_SPREAD = 0.25;

export type RetryPolicy = Pick<PublishPolicy, 'initialSeconds' | 'factor' | 'maximumSeconds'>;

/**
 * Milliseconds until the next attempt: exponential, jittered, never above the policy's maximum, finite for any attempt
 * (specification: "Retries need bounded, durable policy"). `attempt` is the one that failed, from 1; `random` is in
 * [0, 1). What the peer asked for raises the delay, within the maximum.
 */
export function retryDelayMs(
  policy: RetryPolicy,
  attempt: number,
  { random, retryAfterSeconds = 0 }: { random: () => number; retryAfterSeconds?: number | undefined },
): number {
  const grownSeconds = policy.initialSeconds * policy.factor ** (attempt - 1);
  // Asked this way round, a power that has left the numbers (Infinity, NaN) is the maximum too.
  const backoffSeconds = grownSeconds < policy.maximumSeconds ? grownSeconds : policy.maximumSeconds;
  const share = random();
  const jittered = backoffSeconds * (SHORTEST_SHARE + (1 - SHORTEST_SHARE) * share);
  const asked = retryAfterSeconds * (1 + RETRY_AFTER_SPREAD * share);
  const seconds = Math.min(policy.maximumSeconds, Math.max(jittered, asked));
  // Temporal takes a delay of 0 for none given.
  return Math.max(1, Math.round(seconds * 1000));
}
