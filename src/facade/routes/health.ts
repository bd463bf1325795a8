import { Router } from 'express';
import type { Scheduler } from '../../scheduler/scheduler.ts';
import { HoldfastError } from '../../contracts/errors.ts';
import { otherMethods } from '../problem.ts';

/** Well under the 5 s within which a lost Temporal must show. */
const REACH_TIMEOUT_MS = 2_000;

/** `livez`: this process answers. `readyz`: Temporal answers it too; asked anew each time, never remembered. */
export function healthRouter(scheduler: Scheduler): Router {
  const router = Router({ caseSensitive: true });
  // Probes that come together share one call.
  let asking: Promise<boolean> | null = null;
  const isReachable = async (): Promise<boolean> => {
    asking ??= scheduler.isReachable(REACH_TIMEOUT_MS).finally(() => {
      asking = null;
    });
    return asking;
  };

  router
    .route('/livez')
    .get((_request, response) => {
      response.json({ status: 'live' });
    })
    .all(otherMethods('GET', 'HEAD'));
  router
    .route('/readyz')
    .get(async (_request, response) => {
      if (!(await isReachable())) throw new HoldfastError('temporal-unavailable');
      response.json({ status: 'ready' });
    })
    .all(otherMethods('GET', 'HEAD'));
  return router;
}
