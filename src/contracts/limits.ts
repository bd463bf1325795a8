/**
 * Every cap of Holdfast's inputs, in one place. Sizes are bytes of the JSON (see `jsonBytes`), so that what passes here
 * also passes Temporal's own limits: 2 MB a payload, above which a workflow task would fail for ever.
 */
export const LIMITS = {
  inputBytesMax: 256 * 1024,
  sourceBytesMax: 4 * 1024,
  labelsMax: 16,
  labelBytesMax: 256,
  typeLengthMax: 128,
  queueLengthMax: 128,
  taskIdLengthMax: 128,
  customerIdLengthMax: 64,
  idempotencyKeyLengthMax: 128,
  executorIdLengthMax: 128,
  reasonBytesMax: 1024,
  messageBytesMax: 32 * 1024,
  messagesPageMax: 100,
  /** Bytes of messages in one page of the mailbox: a query's answer is a payload too. */
  messagesPageBytesMax: 512 * 1024,
  unreadMessagesMax: 1000,
  unreadBytesMax: 1024 * 1024,
  resultBytesMax: 256 * 1024,
  effectsMax: 64,
  effectBytesMax: 2 * 1024,
  lastErrorLengthMax: 512,
  /** Refusals and other verdicts that no other part of the record holds. */
  verdictsMax: 1000,
  /** No serialized verdict is larger: key 128, fingerprint 43, message id 48, the rest fixed words and numbers. */
  verdictBytesMax: 384,
  /** What a whole record may weigh, so that continue-as-new and the close always pass. */
  recordBytesMax: 1_500_000,
  /** Reserved within it for identity, lineage, source, labels, claim, cancellation and transitions. */
  recordFixedBytes: 48 * 1024,
  lineageDepthMax: 32,
  /** How far ahead a release may lie: five years. */
  releaseAheadSecondsMax: 5 * 366 * 24 * 3600,
  /** The longest run time-out that a configuration may allow: 400 days. */
  runTimeoutSecondsMax: 400 * 24 * 3600,
  pageSizeDefault: 50,
  pageSizeMax: 200,
  requestBytesMax: 512 * 1024,
  /** Deeper than any sensible document, far from the depth that exhausts a stack. */
  jsonDepthMax: 64,
} as const;

/** Task ids, and types and queues, which share their form; see design: the joined workflow id stays unambiguous. */
export const NAME_PATTERN = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;

/** Idempotency keys: printable ASCII without space, quote and backslash, so that a key's JSON is as long as the key. */
export const IDEMPOTENCY_KEY_PATTERN = /^[\x21\x23-\x5b\x5d-\x7e]{1,128}$/;
