/** The mailbox of a Task. */
import { Router } from 'express';
import { messageBody, messagesQuery, readMarkBody } from '../../contracts/api.ts';
import type { Scheduler } from '../../scheduler/scheduler.ts';
import { callerOf } from '../auth.ts';
import { markReplayed } from '../idempotency.ts';
import { jsonOf } from '../json-body.ts';
import { otherMethods } from '../problem.ts';
import { targetOf, taskIdOf } from '../target.ts';
import { waitOf } from '../wait.ts';

export function messagesRouter(scheduler: Scheduler): Router {
  const router = Router({ caseSensitive: true });

  router
    .route('/v1/tasks/:taskId/messages')
    .get(async (request, response) => {
      const range = messagesQuery.parse(request.query);
      const wait = waitOf(request, response);
      response.json(await scheduler.messages(callerOf(response).customerId, taskIdOf(request), { ...range, wait }));
    })
    .post(async (request, response) => {
      const target = targetOf(request, response);
      const { messageId, seq, replayed } = await scheduler.sendMessage(target, messageBody.parse(jsonOf(request)));
      if (replayed) markReplayed(response);
      response.status(201).json({ messageId, seq });
    })
    .all(otherMethods('GET', 'HEAD', 'POST'));

  router
    .route('/v1/tasks/:taskId/messages/read')
    .post(async (request, response) => {
      const target = targetOf(request, response, 'execute', 'operate');
      response.json(await scheduler.markRead(target, readMarkBody.parse(jsonOf(request))));
    })
    .all(otherMethods('POST'));

  return router;
}
