/** The routes of Tasks: HTTP in, the scheduler's words out. Nothing is decided here. */
import { Router, type Request, type Response } from 'express';
import {
  cancelBody,
  claimBody,
  messageBody,
  messagesQuery,
  resultBody,
  scheduleBody,
  taskParams,
} from '../../contracts/api.ts';
import type { CommandTarget, Scheduler } from '../../scheduler/scheduler.ts';
import { callerOf } from '../auth.ts';
import { keyOf, markReplayed } from '../idempotency.ts';
import { jsonOf } from '../json-body.ts';
import { otherMethods } from '../problem.ts';

export function tasksRouter(scheduler: Scheduler): Router {
  // As the app is: a path that only the router matched would pass by what the app puts before it.
  const router = Router({ caseSensitive: true });

  router
    .route('/v1/tasks')
    .post(async (request, response) => {
      const { customerId } = callerOf(response);
      const body = scheduleBody.parse(jsonOf(request));
      const { task, replayed } = await scheduler.schedule(customerId, body, keyOf(response).key);
      if (replayed) markReplayed(response);
      response
        .status(replayed ? 200 : 201)
        .location(`/v1/tasks/${task.taskId}`)
        .json(task);
    })
    .all(otherMethods('POST'));

  router
    .route('/v1/tasks/:taskId')
    .get(async (request, response) => {
      response.json(await scheduler.get(callerOf(response).customerId, taskIdOf(request)));
    })
    .all(otherMethods('GET', 'HEAD'));

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
    .route('/v1/tasks/:taskId/stop')
    .get(async (request, response) => {
      response.json(await scheduler.stopCheck(callerOf(response).customerId, taskIdOf(request)));
    })
    .all(otherMethods('GET', 'HEAD'));

  router
    .route('/v1/tasks/:taskId/messages')
    .get(async (request, response) => {
      const range = messagesQuery.parse(request.query);
      response.json(await scheduler.messages(callerOf(response).customerId, taskIdOf(request), range));
    })
    .post(async (request, response) => {
      const target = targetOf(request, response);
      const { messageId, seq, replayed } = await scheduler.sendMessage(target, messageBody.parse(jsonOf(request)));
      if (replayed) markReplayed(response);
      response.status(201).json({ messageId, seq });
    })
    .all(otherMethods('GET', 'HEAD', 'POST'));

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

  return router;
}

function taskIdOf(request: Request): string {
  return taskParams.parse(request.params).taskId;
}

function targetOf(request: Request, response: Response): CommandTarget {
  return { customerId: callerOf(response).customerId, taskId: taskIdOf(request), ...keyOf(response) };
}
