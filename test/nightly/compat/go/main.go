// Command clients makes the usual calls of OpenAI's and Anthropic's Go libraries to a gateway, with BASE_URL, KEY,
// WRONG_KEY and SPENT_KEY in the environment, and prints a JSON object with "ok" or the error for each call. The model
// is `sim`; the keys may not use `closed`. SPENT_KEY has reached its limit.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
)

var (
	ctx   = context.Background()
	base  = os.Getenv("BASE_URL")
	found = map[string]string{}
)

func check(name string, err error) {
	found[name] = "ok"
	if err != nil {
		found[name] = err.Error()
	}
}

// full says what is missing if an answer has no text or no usage.
func full(err error, text string, tokens int64) error {
	if err == nil && (text == "" || tokens == 0) {
		return fmt.Errorf("text %q, %d tokens", text, tokens)
	}
	return err
}

func openaiClient(key string) openai.Client {
	return openai.NewClient(option.WithBaseURL(base+"/v1"), option.WithAPIKey(key))
}

func chatOf(model string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model:    model,
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Hi")},
	}
}

func tryOpenai() {
	client := openaiClient(os.Getenv("KEY"))

	whole, err := client.Chat.Completions.New(ctx, chatOf("sim"))
	if err == nil {
		err = full(nil, whole.Choices[0].Message.Content, whole.Usage.TotalTokens)
	}
	check("openai chat", err)

	stream := client.Chat.Completions.NewStreaming(ctx, chatOf("sim"))
	sum := openai.ChatCompletionAccumulator{}
	for stream.Next() {
		sum.AddChunk(stream.Current())
	}
	err = stream.Err()
	if err == nil && (len(sum.Choices) == 0 || sum.Choices[0].Message.Content == "") {
		err = errors.New("the stream has no text")
	}
	check("openai chat, streamed", err)

	answer, err := client.Responses.New(ctx, responses.ResponseNewParams{
		Model: "sim",
		Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("Hi")},
	})
	if err == nil {
		err = full(nil, answer.OutputText(), answer.Usage.TotalTokens)
	}
	check("openai responses", err)

	_, err = client.Embeddings.New(ctx, openai.EmbeddingNewParams{
		Model: "sim",
		Input: openai.EmbeddingNewParamsInputUnion{OfString: openai.String("Hi")},
	})
	check("openai embeddings", err)

	models, err := client.Models.List(ctx)
	if err == nil && len(models.Data) == 0 {
		err = errors.New("no models")
	}
	check("openai models", err)

	for _, each := range []struct {
		name, key, model string
		status           int
	}{
		{"openai wrong key", os.Getenv("WRONG_KEY"), "sim", 401},
		{"openai closed model", os.Getenv("KEY"), "closed", 403},
		{"openai used-up limit", os.Getenv("SPENT_KEY"), "sim", 429},
	} {
		client := openaiClient(each.key)
		_, err := client.Chat.Completions.New(ctx, chatOf(each.model))
		var refused *openai.Error
		if errors.As(err, &refused) && refused.StatusCode == each.status && refused.Message != "" {
			err = nil
		} else if err == nil {
			err = errors.New("not refused")
		}
		check(each.name, err)
	}
}

func anthropicClient(key string) anthropic.Client {
	return anthropic.NewClient(anthropicoption.WithBaseURL(base), anthropicoption.WithAPIKey(key))
}

func messageOf(model string) anthropic.MessageNewParams {
	return anthropic.MessageNewParams{
		Model:     model,
		MaxTokens: 100,
		Messages:  []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("Hi"))},
	}
}

func tryAnthropic() {
	client := anthropicClient(os.Getenv("KEY"))

	whole, err := client.Messages.New(ctx, messageOf("sim"))
	if err == nil {
		err = full(nil, whole.Content[0].Text, whole.Usage.OutputTokens)
	}
	check("anthropic messages", err)

	stream := client.Messages.NewStreaming(ctx, messageOf("sim"))
	sum := anthropic.Message{}
	for stream.Next() {
		if err := sum.Accumulate(stream.Current()); err != nil {
			check("anthropic events", err)
		}
	}
	err = stream.Err()
	if err == nil && (len(sum.Content) == 0 || sum.Content[0].Text == "") {
		err = errors.New("the stream has no text")
	}
	check("anthropic messages, streamed", err)

	models, err := client.Models.List(ctx, anthropic.ModelListParams{})
	if err == nil && (len(models.Data) == 0 || models.Data[0].DisplayName == "" || models.HasMore) {
		err = fmt.Errorf("models %v", models.Data)
	}
	check("anthropic models", err)

	for _, each := range []struct {
		name, key, model string
		status           int
	}{
		{"anthropic wrong key", os.Getenv("WRONG_KEY"), "sim", 401},
		{"anthropic closed model", os.Getenv("KEY"), "closed", 404},
		{"anthropic used-up limit", os.Getenv("SPENT_KEY"), "sim", 429},
	} {
		client := anthropicClient(each.key)
		_, err := client.Messages.New(ctx, messageOf(each.model))
		var refused *anthropic.Error
		if errors.As(err, &refused) && refused.StatusCode == each.status {
			err = nil
		} else if err == nil {
			err = errors.New("not refused")
		}
		check(each.name, err)
	}
}

func main() {
	tryOpenai()
	tryAnthropic()
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		panic(err)
	}
}
