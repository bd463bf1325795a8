/** What executors and operators ask of a Task: each a command with a key, answered by its verdict. */
import { Router } from 'express';
import { cancelBody, claimBody, emptyBody, resultBody } from '../../contracts/api.ts';
import type { Scheduler } from '../../scheduler/scheduler.ts';
import { callerOf, shownTo } from '../auth.ts';
import { jsonOf } from '../json-body.ts';
import { otherMethods } from '../problem.ts';
import { targetOf } from '../target.ts';

export function commandsRouter(scheduler: Scheduler): Router {
  // As the app is: a path that only the router matched would pass by what the app puts before it.
  const router = Router({ caseSensitive: true });

  router
    .route('/v1/tasks/:taskId/claim')
    .post(async (request, response) => {
      const target = targetOf(request, response, 'execute');
      const task = await scheduler.claim(target, claimBody.parse(jsonOf(request)));
      // The key of the accepted claim is the secret of the executor that won: it is told to nobody else.
      response.json({ ...task, claimId: target.key });
    })
    .all(otherMethods('POST'));

  router
    .route('/v1/tasks/:taskId/cancel')
    .post(async (request, response) => {
      const target = targetOf(request, response, 'schedule', 'operate');
      response.json(shownTo(response, await scheduler.cancel(target, cancelBody.parse(jsonOf(request)))));
    })
    .all(otherMethods('POST'));

  router
    .route('/v1/tasks/:taskId/result')
    .post(async (request, response) => {
      const target = targetOf(request, response, 'execute', 'operate');
      const body = resultBody.parse(jsonOf(request));
      // The claim id proves whose run it is; whoever ends a run without one repairs.
      if (body.claimId === undefined) callerOf(response, 'operate');
      response.json(await scheduler.recordResult(target, body));
    })
    .all(otherMethods('POST'));

  router
    .route('/v1/tasks/:taskId/redeliver')
    .post(async (request, response) => {
      emptyBody.parse(jsonOf(request));
      response.status(202).json(await scheduler.redeliver(targetOf(request, response, 'operate')));
    })
    .all(otherMethods('POST'));

  return router;
}
