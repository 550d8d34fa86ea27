"""Reports: one HTML page about a classifier, its photos and its predictions.

recorder = PhotoRecorder()
clf.fit_images(images, Callbacks(on_fitted=recorder.on_training))
write_report("pets.report.html", collect_training(clf, recorder, "pets.safetensors"))
"""

from .collect import collect_ood, collect_test, collect_training, collect_update
from .page import page, write_report
from .pictures import PhotoRecorder
from .report_data import ReportData
from .rewrite import rewrite_report

__all__ = [
    "PhotoRecorder",
    "ReportData",
    "collect_ood",
    "collect_test",
    "collect_training",
    "collect_update",
    "page",
    "rewrite_report",
    "write_report",
]
