package com.example.trunkline;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonParseException;
import com.google.gson.stream.JsonReader;
import java.io.StringReader;

/**
 * Runs one tool: it returns the result as JSON text, which the caller reads digit for digit, or throws. A {@link
 * ToolException} reaches the caller as it says, anything else as a failure of kind EXCEPTION.
 *
 * <p>Its thread is interrupted when the claim is lost; what comes of it then does not count. A time limit of the call
 * does not end it from here: the server knows whether that is worth another attempt.
 */
@FunctionalInterface
public interface Handler {
  String handle(Call call) throws Exception;

  /** A handler of values in place of JSON text. */
  @FunctionalInterface
  interface Typed<I> {
    Object handle(Call call, I input) throws Exception;
  }

  /** Gives a handler its input as an {@code I}, and sends what it returns as JSON. */
  static <I> Handler typed(Class<I> type, Typed<I> handler) {
    Gson gson = new GsonBuilder().serializeNulls().disableHtmlEscaping().create();
    return call -> {
      I input;
      try {
        JsonReader json = new JsonReader(new StringReader(call.inputJson()));
        json.setNestingLimit(256); // the server's limit; Gson's own is less
        input = gson.fromJson(json, type);
      } catch (JsonParseException error) {
        throw new ToolException("input: " + error.getMessage());
      }
      return gson.toJson(handler.handle(call, input));
    };
  }
}
