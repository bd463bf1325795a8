/** Reading a Task's mailbox: pure. */
import { jsonBytes } from '../../src/contracts/json.ts';
import { LIMITS } from '../../src/contracts/limits.ts';
import type { Mailbox, Message } from '../../src/contracts/task.ts';
import type { MessagesAnswer } from '../../src/contracts/workflow.ts';

/**
 * Unread messages after a sequence number, in order, up to `limit` and to the byte cap of a page (at least one, so that
 * a reader always gets on).
 */
export function readMessages(mailbox: Mailbox, range: { after: number; limit: number }): MessagesAnswer {
  const messages: Message[] = [];
  let bytes = 0;
  for (const { seq, messageId, at, body } of mailbox.messages) {
    if (seq <= range.after) continue;
    const message = { seq, messageId, at, body };
    bytes += jsonBytes(message);
    if (messages.length >= range.limit || (messages.length > 0 && bytes > LIMITS.messagesPageBytesMax)) break;
    messages.push(message);
  }
  return { messages, lastSeq: mailbox.lastSeq, readSeq: mailbox.readSeq };
}
