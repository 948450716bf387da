import com.anthropic.client.AnthropicClient;
import com.anthropic.client.okhttp.AnthropicOkHttpClient;
import com.anthropic.errors.AnthropicServiceException;
import com.anthropic.models.messages.MessageCreateParams;
import com.openai.client.OpenAIClient;
import com.openai.client.okhttp.OpenAIOkHttpClient;
import com.openai.errors.OpenAIServiceException;
import com.openai.models.chat.completions.ChatCompletionCreateParams;
import com.openai.models.embeddings.EmbeddingCreateParams;
import com.openai.models.responses.ResponseCreateParams;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.stream.Collectors;

/**
 * Makes the usual calls of OpenAI's and Anthropic's Java libraries and prints a JSON object with "ok" or what is wrong
 * for each. BASE_URL, KEY, WRONG_KEY and SPENT_KEY are in the environment, as for the other clients.
 */
public class Libraries {
  static final String base = System.getenv("BASE_URL");
  static final Map<String, String> found = new LinkedHashMap<>();

  static void check(String name, Callable<Boolean> call) {
    String result;
    try {
      result = call.call() ? "ok" : "something is missing in the answer";
    } catch (Exception error) {
      result = error.toString();
    }
    found.put(name, result);
  }

  static OpenAIClient openai(String key) {
    return OpenAIOkHttpClient.builder().baseUrl(base + "/v1").apiKey(System.getenv(key)).build();
  }

  static ChatCompletionCreateParams chatOf(String model) {
    return ChatCompletionCreateParams.builder().model(model).addUserMessage("Hi").build();
  }

  static void tryOpenai() {
    OpenAIClient client = openai("KEY");
    check("openai chat", () -> client.chat().completions().create(chatOf("sim")).usage().get().totalTokens() > 0);
    check("openai chat, streamed", () -> {
      try (var stream = client.chat().completions().createStreaming(chatOf("sim"))) {
        return stream.stream()
            .flatMap((chunk) -> chunk.choices().stream())
            .anyMatch((choice) -> choice.delta().content().isPresent());
      }
    });
    var question = ResponseCreateParams.builder().model("sim").input("Hi").build();
    check("openai responses", () -> client.responses().create(question).usage().get().totalTokens() > 0);
    var text = EmbeddingCreateParams.builder().model("sim").input("Hi").build();
    check("openai embeddings", () -> !client.embeddings().create(text).data().isEmpty());
    check("openai models", () -> !client.models().list().data().isEmpty());
    refusedByOpenai("openai wrong key", "WRONG_KEY", "sim", 401);
    refusedByOpenai("openai closed model", "KEY", "closed", 403);
    refusedByOpenai("openai used-up limit", "SPENT_KEY", "sim", 429);
  }

  static void refusedByOpenai(String name, String key, String model, int status) {
    check(name, () -> {
      try {
        openai(key).chat().completions().create(chatOf(model));
        return false;
      } catch (OpenAIServiceException refusal) {
        return refusal.statusCode() == status && refusal.code().isPresent();
      }
    });
  }

  static AnthropicClient anthropic(String key) {
    return AnthropicOkHttpClient.builder().baseUrl(base).apiKey(System.getenv(key)).build();
  }

  static MessageCreateParams messageOf(String model) {
    return MessageCreateParams.builder().model(model).maxTokens(100).addUserMessage("Hi").build();
  }

  static void tryAnthropic() {
    AnthropicClient client = anthropic("KEY");
    check("anthropic messages", () -> client.messages().create(messageOf("sim")).usage().outputTokens() > 0);
    check("anthropic messages, streamed", () -> {
      try (var stream = client.messages().createStreaming(messageOf("sim"))) {
        return stream.stream().anyMatch((event) -> event.isContentBlockDelta());
      }
    });
    check("anthropic models", () -> !client.models().list().data().isEmpty());
    refusedByAnthropic("anthropic wrong key", "WRONG_KEY", "sim", 401);
    refusedByAnthropic("anthropic closed model", "KEY", "closed", 404);
    refusedByAnthropic("anthropic used-up limit", "SPENT_KEY", "sim", 429);
  }

  static void refusedByAnthropic(String name, String key, String model, int status) {
    check(name, () -> {
      try {
        anthropic(key).messages().create(messageOf(model));
        return false;
      } catch (AnthropicServiceException refusal) {
        return refusal.statusCode() == status;
      }
    });
  }

  static String quoted(String text) {
    String escaped = text.replace("\\", "\\\\").replace("\"", "\\\"");
    return "\"" + escaped.replaceAll("\\p{Cntrl}", " ") + "\"";
  }

  public static void main(String[] arguments) {
    tryOpenai();
    tryAnthropic();
    System.out.println(
        found.entrySet().stream()
            .map((each) -> quoted(each.getKey()) + ":" + quoted(each.getValue()))
            .collect(Collectors.joining(",", "{", "}")));
    System.exit(0); // The libraries' threads would keep the program for a minute.
  }
}
