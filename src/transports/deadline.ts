/**
 * Runs `work` with a signal that aborts with the given one, or after `ms` with what `expired` returns; whichever comes
 * first stays the reason. Timer and listener go when the work ends. (`AbortSignal.any` and `AbortSignal.timeout` would
 * leave both to the garbage collector.)
 */
export async function withDeadline<T>(
  options: { signal: AbortSignal; ms: number; expired: () => Error },
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const { signal, ms, expired } = options;
  const controller = new AbortController();
  const onAbort = (): void => controller.abort(signal.reason);
  const timer = setTimeout(() => controller.abort(expired()), ms);
  if (signal.aborted) onAbort();
  else signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await work(controller.signal);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', onAbort);
  }
}
