package com.example.trunkline;

import com.google.protobuf.ByteString;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.nio.charset.StandardCharsets;
import java.util.function.Consumer;
import trunkline.v1.Model.Failure;
import trunkline.v1.Model.FailureKind;
import trunkline.v1.Worker.Answer;

/** A claim's handler, running on a thread of its own. */
final class Run implements Runnable {
  /** The server cuts a failure's message here, and refuses more data than this. */
  private static final int MAX_MESSAGE = 8 << 10, MAX_DATA_BYTES = 64 << 10;

  private static final Logger LOG = System.getLogger(Run.class.getName());

  private final Handler handler;
  private final Call call;
  private final int maxResultBytes;
  private final Consumer<Answer> ended;

  // Both guarded by this: an interrupt must hit the handler, and not what its thread does next.
  private Thread thread;
  private boolean stopped;

  Run(Handler handler, Call call, int maxResultBytes, Consumer<Answer> ended) {
    this.handler = handler;
    this.call = call;
    this.maxResultBytes = maxResultBytes;
    this.ended = ended;
  }

  /** Interrupts the handler, also one that is about to start. */
  synchronized void stop() {
    stopped = true;
    if (thread != null) {
      thread.interrupt();
    }
  }

  private synchronized void runsOn(Thread current) {
    thread = current;
    if (thread == null) {
      Thread.interrupted();
    } else if (stopped) {
      thread.interrupt();
    }
  }

  @Override
  public void run() {
    runsOn(Thread.currentThread());
    Answer answer;
    try {
      answer = success(handler.handle(call));
    } catch (ToolException failed) {
      answer = failure(failed);
    } catch (Throwable thrown) { // a StackOverflowError or a failed assertion too is the end of one call only
      LOG.log(Level.WARNING, "call " + call.id(), thrown);
      answer = failure(FailureKind.FAILURE_KIND_EXCEPTION, thrown.toString());
    } finally {
      runsOn(null);
    }
    ended.accept(answer);
  }

  /** What could not be sent as it is becomes a failure: an answer that is too large is refused with its whole frame. */
  private Answer success(String result) {
    String json = result == null ? "null" : result;
    if (!StandardCharsets.UTF_8.newEncoder().canEncode(json)) {
      return failure(FailureKind.FAILURE_KIND_INVALID_ANSWER, "the result has half of a surrogate pair");
    }
    ByteString bytes = ByteString.copyFromUtf8(json);
    if (bytes.size() > maxResultBytes) {
      String message = "the result has " + bytes.size() + " bytes; allowed are " + maxResultBytes;
      return failure(FailureKind.FAILURE_KIND_OVERSIZED, message);
    }
    return answer().setResultJsonBytes(bytes).build();
  }

  private Answer failure(ToolException failed) {
    ByteString data = ByteString.copyFromUtf8(failed.dataJson());
    Answer.Builder answer;
    if (data.size() > MAX_DATA_BYTES) {
      String message = "the failure's data has " + data.size() + " bytes; allowed are " + MAX_DATA_BYTES
          + " (of the failure: " + failed.getMessage() + ")";
      answer = failure(FailureKind.FAILURE_KIND_OVERSIZED, message).toBuilder();
    } else {
      answer = failure(FailureKind.FAILURE_KIND_TOOL, String.valueOf(failed.getMessage())).toBuilder();
      answer.getFailureBuilder().setDataJsonBytes(data);
    }
    answer.getFailureBuilder().setRetryable(failed.retryable());
    return answer.build();
  }

  private Answer failure(FailureKind kind, String message) {
    String cut = message.substring(0, Math.min(message.length(), MAX_MESSAGE));
    return answer().setFailure(Failure.newBuilder().setKind(kind).setMessage(cut)).build();
  }

  private Answer.Builder answer() {
    return Answer.newBuilder().setClaimId(call.claim().getClaimId()).setCallId(call.id());
  }
}
