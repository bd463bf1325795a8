/** Scheduling and reading Tasks: HTTP in, the scheduler's words out. Nothing is decided here. */
import { createHash } from 'node:crypto';
import { Router } from 'express';
import { listQuery, scheduleBody } from '../../contracts/api.ts';
import type { TaskView } from '../../contracts/task.ts';
import type { DescribedTask, Scheduler } from '../../scheduler/scheduler.ts';
import { callerOf, shownTo } from '../auth.ts';
import { keyOf, markReplayed } from '../idempotency.ts';
import { jsonOf } from '../json-body.ts';
import { otherMethods } from '../problem.ts';
import { taskIdOf } from '../target.ts';
import { waitOf } from '../wait.ts';

export function tasksRouter(scheduler: Scheduler): Router {
  const router = Router({ caseSensitive: true });

  router
    .route('/v1/tasks')
    .get(async (request, response) => {
      const { pageSize, pageToken, ...filter } = listQuery.parse(request.query);
      response.json(await scheduler.list(callerOf(response).customerId, filter, { pageSize, pageToken }));
    })
    .post(async (request, response) => {
      const { customerId } = callerOf(response, 'schedule');
      const body = scheduleBody.parse(jsonOf(request));
      const { task, replayed } = await scheduler.schedule(customerId, body, keyOf(response).key);
      if (replayed) markReplayed(response);
      response
        .status(replayed ? 200 : 201)
        .location(`/v1/tasks/${task.taskId}`)
        .json(shownTo(response, task));
    })
    .all(otherMethods('GET', 'HEAD', 'POST'));

  router
    .route('/v1/tasks/:taskId')
    .get(async (request, response) => {
      const identity = { customerId: callerOf(response).customerId, taskId: taskIdOf(request) };
      // Waiting makes sense for a caller who says what it knows; any other gets the Task as it stands.
      const wait = waitOf(request, response);
      const isKnown = (task: TaskView | DescribedTask): boolean => {
        response.setHeader('ETag', etagOf(shownTo(response, task)));
        return request.fresh;
      };
      const task = await scheduler.getChanged(identity, isKnown, wait);
      if (task === null) response.status(304).end();
      else response.json(shownTo(response, task));
    })
    .all(otherMethods('GET', 'HEAD'));

  router
    .route('/v1/tasks/:taskId/evidence')
    .get(async (request, response) => {
      // It names claim tokens.
      const { customerId } = callerOf(response, 'execute', 'operate');
      response.json(await scheduler.evidence(customerId, taskIdOf(request)));
    })
    .all(otherMethods('GET', 'HEAD'));

  router
    .route('/v1/tasks/:taskId/stop')
    .get(async (request, response) => {
      response.json(await scheduler.stopCheck(callerOf(response).customerId, taskIdOf(request)));
    })
    .all(otherMethods('GET', 'HEAD'));

  return router;
}

/** Of the representation, not of the revision: two answers with one tag are the same bytes. */
function etagOf(task: object): string {
  return `"${createHash('sha256').update(JSON.stringify(task)).digest('base64url').slice(0, 27)}"`;
}
