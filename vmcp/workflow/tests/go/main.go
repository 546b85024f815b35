// Renders templates as ToolHive does, for the comparison in src/template/tests/against_go.rs: a JSON object
// {"template", "data"} a line in, {"text"} or {"error"} a line out. Whole numbers are read as integers.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"text/template"
)

func whole(value any) any {
	switch it := value.(type) {
	case json.Number:
		if number, err := it.Int64(); err == nil {
			return number
		}
		number, _ := it.Float64()
		return number
	case []any:
		for index := range it {
			it[index] = whole(it[index])
		}
	case map[string]any:
		for key := range it {
			it[key] = whole(it[key])
		}
	}
	return value
}

func parse(text string) (any, error) {
	var value any
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	return whole(value), nil
}

var functions = template.FuncMap{
	"json": func(value any) (string, error) {
		text, err := json.Marshal(value)
		return string(text), err
	},
	"quote":    func(text string) string { return fmt.Sprintf("%q", text) },
	"fromJson": parse,
}

func main() {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		task, _ := parse(line)
		fields := task.(map[string]any)
		answer := map[string]string{}
		parsed, err := template.New("").Funcs(functions).Parse(fields["template"].(string))
		if err == nil {
			var text bytes.Buffer
			err = parsed.Execute(&text, fields["data"])
			answer["text"] = text.String()
		}
		if err != nil {
			answer = map[string]string{"error": err.Error()}
		}
		line2, _ := json.Marshal(answer)
		out.Write(line2)
		out.WriteByte('\n')
	}
}
