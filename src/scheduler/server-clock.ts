/**
 * The facade's clock, held against Temporal's: delays and expiries count on the server's clock. A difference that the
 * answers of commands prove to be more than the tolerance is corrected and logged.
 */
import type { BaseLogger } from 'pino';
import { epochMsOf, instantOf, type Instant } from '../contracts/instant.ts';

const TOLERATED_MS = 5_000;

export class ServerClock {
  readonly #local: () => number;
  readonly #log: Pick<BaseLogger, 'warn'>;
  #offsetMs = 0;

  /** `local` gives milliseconds since the epoch. */
  constructor(local: () => number, log: Pick<BaseLogger, 'warn'>) {
    this.#local = local;
    this.#log = log;
  }

  now(): Instant {
    return instantOf(this.#local() + this.#offsetMs);
  }

  /**
   * Learns from a moment that the server stamped on something that happened after `sentAt` and before now, both as
   * `now()` gave them.
   */
  observe(stamped: Instant, sentAt: Instant): void {
    const receivedAt = this.now();
    const aheadMs = epochMsOf(stamped) - epochMsOf(receivedAt);
    const behindMs = epochMsOf(sentAt) - epochMsOf(stamped);
    const correctionMs = aheadMs > TOLERATED_MS ? aheadMs : behindMs > TOLERATED_MS ? -behindMs : 0;
    if (correctionMs === 0) return;
    this.#offsetMs += correctionMs;
    this.#log.warn({ correctionMs, offsetMs: this.#offsetMs }, "clock corrected to Temporal's");
  }
}
