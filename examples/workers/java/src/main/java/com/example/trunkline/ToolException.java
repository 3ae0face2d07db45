package com.example.trunkline;

/** A failure that is meant for the caller. */
public final class ToolException extends Exception {
  private static final long serialVersionUID = 1;

  private final String dataJson;
  private final boolean retryable;

  public ToolException(String message) {
    this(message, "", false);
  }

  /**
   * @param dataJson more, as JSON text of at most 64 KiB; empty for none
   * @param retryable whether another attempt makes sense
   */
  public ToolException(String message, String dataJson, boolean retryable) {
    super(message);
    this.dataJson = dataJson;
    this.retryable = retryable;
  }

  public String dataJson() {
    return dataJson;
  }

  public boolean retryable() {
    return retryable;
  }
}
