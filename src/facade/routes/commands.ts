/** What executors and operators ask of a Task: each a command with a key, answered by its verdict. */
import { Router } from 'express';
import { cancelBody, claimBody, emptyBody, resultBody } from '../../contracts/api.ts';
import type { Scheduler } from '../../scheduler/scheduler.ts';
import { jsonOf } from '../json-body.ts';
import { otherMethods } from '../problem.ts';
import { targetOf } from '../target.ts';

export function commandsRouter(scheduler: Scheduler): Router {
  // As the app is: a path that only the router matched would pass by what the app puts before it.
  const router = Router({ caseSensitive: true });

  router
    .route('/v1/tasks/:taskId/claim')
    .post(async (request, response) => {
      const target = targetOf(request, response);
      const task = await scheduler.claim(target, claimBody.parse(jsonOf(request)));
      // The key of the accepted claim is the secret of the executor that won: it is told to nobody else.
      response.json({ ...task, claimId: target.key });
    })
    .all(otherMethods('POST'));

  router
    .route('/v1/tasks/:taskId/cancel')
    .post(async (request, response) => {
      response.json(await scheduler.cancel(targetOf(request, response), cancelBody.parse(jsonOf(request))));
    })
    .all(otherMethods('POST'));

  router
    .route('/v1/tasks/:taskId/result')
    .post(async (request, response) => {
      response.json(await scheduler.recordResult(targetOf(request, response), resultBody.parse(jsonOf(request))));
    })
    .all(otherMethods('POST'));

  router
    .route('/v1/tasks/:taskId/redeliver')
    .post(async (request, response) => {
      emptyBody.parse(jsonOf(request));
      response.status(202).json(await scheduler.redeliver(targetOf(request, response)));
    })
    .all(otherMethods('POST'));

  return router;
}
