/* Loads a SavedModel as TF Serving does, in C++ without any Python, and prints what it
   answers.

   usage: savedmodel_loader FOLDER LIBRARIES INPUT OUTPUT,OUTPUT... TEXT...

   LIBRARIES are shared objects with further operations, separated by colons, or "".
   INPUT and OUTPUT are tensors as the SignatureDef names them, such as "call:2". For
   each output a line is printed: its dimensions, a colon, its values; strings are in
   hexadecimal with an x in front. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensorflow/c/c_api.h"
#include "tensorflow/c/tf_tstring.h"

enum { MAX_OUTPUTS = 16 };

static void stop_if(TF_Status *status, const char *what) {
  if (TF_GetCode(status) == TF_OK) return;
  fprintf(stderr, "%s: %s\n", what, TF_Message(status));
  exit(1);
}

static void keep(void *data, size_t length, void *argument) {
  (void)data, (void)length, (void)argument; /* lives as long as the process */
}

static TF_Output find(TF_Graph *graph, char *name) {
  TF_Output found = {NULL, 0};
  char *colon = strrchr(name, ':');
  if (colon) {
    *colon = '\0';
    found.index = atoi(colon + 1);
  }
  found.oper = TF_GraphOperationByName(graph, name);
  if (!found.oper) {
    fprintf(stderr, "the graph has no operation %s\n", name);
    exit(1);
  }
  return found;
}

static TF_Tensor *make_texts(int count, char **texts) {
  int64_t dims[1] = {count};
  TF_TString *values = calloc(count, sizeof(TF_TString));
  for (int i = 0; i < count; i++) {
    TF_TString_Init(&values[i]);
    TF_TString_Copy(&values[i], texts[i], strlen(texts[i]));
  }
  size_t size = count * sizeof(TF_TString);
  return TF_NewTensor(TF_STRING, dims, 1, values, size, keep, NULL);
}

static void print_value(const TF_Tensor *tensor, int64_t place) {
  const void *data = TF_TensorData(tensor);
  switch (TF_TensorType(tensor)) {
    case TF_FLOAT:
      printf(" %.9g", ((const float *)data)[place]);
      break;
    case TF_INT32:
      printf(" %d", ((const int32_t *)data)[place]);
      break;
    case TF_STRING: {
      const TF_TString *text = (const TF_TString *)data + place;
      const char *bytes = TF_TString_GetDataPointer(text);
      printf(" x");
      for (size_t i = 0; i < TF_TString_GetSize(text); i++)
        printf("%02x", (unsigned char)bytes[i]);
      break;
    }
    default:
      fprintf(stderr, "an output of a type not known here\n");
      exit(1);
  }
}

static void print_tensor(const TF_Tensor *tensor) {
  int64_t count = 1;
  for (int i = 0; i < TF_NumDims(tensor); i++) {
    printf("%ld ", (long)TF_Dim(tensor, i));
    count *= TF_Dim(tensor, i);
  }
  printf(":");
  for (int64_t i = 0; i < count; i++) print_value(tensor, i);
  printf("\n");
}

int main(int count, char **arguments) {
  if (count < 6) return 2;
  TF_Status *status = TF_NewStatus();
  for (char *name = strtok(arguments[2], ":"); name; name = strtok(NULL, ":")) {
    TF_LoadLibrary(name, status);
    stop_if(status, name);
  }
  TF_Graph *graph = TF_NewGraph();
  const char *tags[] = {"serve"};
  TF_Session *session = TF_LoadSessionFromSavedModel(
      TF_NewSessionOptions(), NULL, arguments[1], tags, 1, graph, NULL, status);
  stop_if(status, "load");

  TF_Output input = find(graph, arguments[3]), outputs[MAX_OUTPUTS];
  TF_Tensor *texts = make_texts(count - 5, arguments + 5), *answers[MAX_OUTPUTS];
  int wanted = 0;
  for (char *name = strtok(arguments[4], ","); name; name = strtok(NULL, ",")) {
    if (wanted == MAX_OUTPUTS) return 2;
    outputs[wanted++] = find(graph, name);
  }
  TF_SessionRun(session, NULL, &input, &texts, 1, outputs, answers, wanted, NULL, 0,
                NULL, status);
  stop_if(status, "run");
  for (int i = 0; i < wanted; i++) print_tensor(answers[i]);
  return 0;
}
