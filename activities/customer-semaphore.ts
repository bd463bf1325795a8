/**
 * Bounds how much of one kind (a customer's publishes to one queue) is under way, so that a backlog does not take every
 * slot. A key is held in memory only while it has something under way; waiters are as many as their callers, whom the
 * worker bounds.
 */
export class CustomerSemaphore {
  readonly #limit: number;
  readonly #customers = new Map<string, { underWay: number; waiters: Set<() => void> }>();

  /** `limit`: how many may be under way per customer. */
  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Customers that are held in memory. */
  get size(): number {
    return this.#customers.size;
  }

  /** Runs `work` when the customer has a place, first come, first served. An abort while waiting throws its reason. */
  async run<T>(customerId: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    const leave = await this.enter(customerId, signal);
    try {
      return await work();
    } finally {
      leave();
    }
  }

  /** Waits for a place; what it resolves to gives it back, and must be called once. */
  async enter(customerId: string, signal: AbortSignal): Promise<() => void> {
    await this.#takePlace(customerId, signal);
    return () => this.#leave(customerId);
  }

  async #takePlace(customerId: string, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    let customer = this.#customers.get(customerId);
    if (customer === undefined) {
      customer = { underWay: 0, waiters: new Set() };
      this.#customers.set(customerId, customer);
    }
    if (customer.underWay < this.#limit) {
      customer.underWay += 1;
      return;
    }
    const { waiters } = customer;
    await new Promise<void>((resolve, reject) => {
      const onAbort = (): void => {
        waiters.delete(onPlace);
        reject(signal.reason as Error);
      };
      const onPlace = (): void => {
        signal.removeEventListener('abort', onAbort);
        resolve();
      };
      waiters.add(onPlace);
      signal.addEventListener('abort', onAbort, { once: true });
    });
  }

  #leave(customerId: string): void {
    const customer = this.#customers.get(customerId);
    if (customer === undefined) return;
    const [next] = customer.waiters;
    if (next !== undefined) {
      // The place goes from hand to hand: nobody who comes now can take it in between.
      customer.waiters.delete(next);
      next();
      return;
    }
    customer.underWay -= 1;
    if (customer.underWay === 0) this.#customers.delete(customerId);
  }
}
